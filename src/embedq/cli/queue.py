"""Commands that show and control the queue."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer
from rich.text import Text

from embedq.app import App, load
from embedq.cli.options import Cursor, InCollection, Json, Limit, OfTenant, Url, ask
from embedq.cli.output import complain, console, count, message_of, more, nothing, print_json, say, shaded, since
from embedq.cli.statuspage import page
from embedq.cli.tables import Cell, Column, table
from embedq.cli.watching import watched, watched_lines
from embedq.errors import Refused
from embedq.model import Job, JobFilter, JobStatus
from embedq.operator import RepairReport
from embedq.operator.report import counted
from embedq.policy.printable import literal
from embedq.shapes import queue as shapes
from embedq.shapes.jobs import Cancelled, JobPage, Requeued
from embedq.shapes.jobs import Job as JobShape
from embedq.shapes.queue import QueueStatus, Retried, Switched

JOBS = (
    Column(name="job"),
    Column(name="collection", least=10, worth=5),
    Column(name="record", key=True),
    Column(name="status"),
    Column(name="attempts", right=True, worth=2),
    Column(name="created", worth=3),
    Column(name="took", right=True, worth=1, if_any=True),
    Column(name="error", least=20, wraps=True, worth=6, if_any=True),
)
RESCUED = (
    Column(name="job"),
    Column(name="collection", least=10, worth=2),
    Column(name="record", key=True),
    Column(name="worker", key=True, worth=1),
    Column(name="now"),
)
REPAIRED = (
    Column(name="collection", least=10),
    Column(name="without vector", right=True),
    Column(name="given a job", right=True),
    Column(name="mended", right=True, worth=1),
)


def status(
    *,
    url: Url = None,
    as_json: Json = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh every second until Ctrl-C; with --json a line each time.")
    ] = False,
) -> None:
    """Show the queue, its coverage and its workers."""
    if watch:
        with suppress(KeyboardInterrupt):
            asyncio.run(watched_lines(url) if as_json else watched(url))
        return
    found = ask(url, lambda app: app.operator.status())
    if as_json:
        print_json(QueueStatus.of(found))
    else:
        screen = console()
        screen.print(page(found, load(url=url).shown_place, width=screen.width))


def jobs(
    *,
    state: Annotated[JobStatus | None, typer.Option("--status", "-s", help="Only jobs of this status.")] = None,
    collection: InCollection = None,
    tenant: OfTenant = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List jobs."""
    which = JobFilter(status=state, collection=collection, tenant=tenant)
    found = ask(url, lambda app: app.operator.jobs(which, limit=limit, cursor=cursor))
    if as_json:
        print_json(JobPage.of(found))
    elif not found.items:
        say("no jobs", shade="dim")
    else:
        screen = console()
        screen.print(table(JOBS, [_row(job) for job in found.items], width=screen.width))
        more(found.next_cursor)


def pause(*, url: Url = None, as_json: Json = False) -> None:
    """Stop all leasing, in every process; jobs that are leased are finished."""
    ask(url, lambda app: app.operator.pause())
    print_json(Switched(status="paused")) if as_json else say(
        "paused: nothing is leased until `embedq resume`", shade="yellow"
    )


def resume(*, url: Url = None, as_json: Json = False) -> None:
    """Let leasing go on, and try halted embedders again."""
    ask(url, lambda app: app.operator.resume())
    print_json(Switched(status="resumed")) if as_json else say("resumed")


def cancel(
    jobs: Annotated[list[str], typer.Argument(help="The jobs' ids.", metavar="JOB")],
    *,
    tenant: OfTenant = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Cancel jobs that are pending or processing; each that cannot be is named, and the others are cancelled."""
    done = ask(url, lambda app: _cancel(app, jobs, tenant))
    if as_json:
        print_json(done)
    else:
        if done.cancelled:
            say(f"{counted(len(done.cancelled), 'job')} cancelled")
        for why in done.refused.values():
            complain(why)
    if done.refused:
        raise typer.Exit(1)


def retry_failed(
    *, collection: InCollection = None, tenant: OfTenant = None, url: Url = None, as_json: Json = False
) -> None:
    """Arm all dead letters again."""
    revived = ask(url, lambda app: app.operator.retry_failed(collection, tenant=tenant))
    if as_json:
        print_json(Retried.of(revived))
        return
    say(f"armed again: {counted(revived.total, 'dead letter')}" if revived.total else "no dead letters")
    for name, number in revived.by_collection.items():
        console().print(f"  {literal(name)}  {number:,}", soft_wrap=True)


def requeue_stale(
    *,
    threshold_minutes: Annotated[
        float | None,
        typer.Option(
            "--threshold-minutes", min=0, max=525_600, help="Also jobs not renewed for so long, if it is given."
        ),
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Take back jobs whose lease ran out, and with a threshold those that were not renewed for so long."""
    rescued = ask(url, lambda app: app.operator.requeue_stale(threshold_minutes))
    if as_json:
        print_json(Requeued.of(rescued))
    elif not rescued:
        say("no stale jobs")
    else:
        say(f"{counted(len(rescued), 'job')} taken back")
        rows = [
            (job.job_id, job.collection, job.record_id, job.worker_id or nothing(), shaded(job.status))
            for job in rescued
        ]
        screen = console()
        screen.print(table(RESCUED, rows, width=screen.width))


def repair(
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every record and its vector; slow, but trusts nothing.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Look at so many records at most.")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Queue misplaced jobs again, find records with neither vector nor job, and give them one."""
    report = ask(url, lambda app: _repair(app, deep=deep, limit=limit))
    if as_json:
        print_json(shapes.RepairReport.of(report))
        return
    if report.placed:
        say(f"{counted(report.placed, 'job')} stood in no place or in several, queued again", shade="yellow")
    say(
        f"{counted(report.armed, 'record')} got a job"
        if report.armed
        else "every record has a vector, a job or a reason"
    )
    rows = [
        (name, count(found.missing), count(found.armed), count(found.mended))
        for name, found in report.by_collection.items()
        if found.missing or found.mended
    ]
    if rows:
        screen = console()
        screen.print(table(REPAIRED, rows, width=screen.width))


async def _repair(app: App, *, deep: bool, limit: int | None) -> RepairReport:
    screen = console(errors=True)
    with screen.status("looking for records without a vector …", spinner="line") as line:
        seen = 0

        def show(collection: str, records: int) -> None:
            nonlocal seen
            seen += records
            line.update(Text(f"{literal(collection)}: {counted(seen, 'record')} looked at …"))

        return await app.operator.repair(deep=deep, limit=limit, progress=show)


async def _cancel(app: App, ids: Sequence[str], tenant: str | None) -> Cancelled:
    done = Cancelled(cancelled=[], refused={})
    for id_ in dict.fromkeys(ids):
        try:
            done.cancelled.append(JobShape.of(await app.operator.cancel(id_, tenant=tenant)))
        except Refused as why:
            done.refused[id_] = str(why)
    return done


def _row(job: Job) -> tuple[Cell, ...]:
    return (
        job.id,
        job.collection,
        job.record_id,
        shaded(job.status),
        f"{job.attempts}/{job.max_attempts}",
        since(job.created_at),
        nothing() if job.processing_time_ms is None else f"{job.processing_time_ms:,} ms",
        message_of(job.error.message if job.error else None),
    )
