"""Commands that watch and steer the queue."""

import asyncio
from contextlib import suppress
from typing import Annotated

import typer
from rich.live import Live
from rich.markup import escape

from embedq.app import App, start
from embedq.cli.options import Cursor, InCollection, Json, Limit, Url, ask, check_database
from embedq.cli.output import NOTHING, console, count, print_json, say, shaded, since, table
from embedq.cli.statuspage import page
from embedq.model import Job, JobFilter, JobStatus
from embedq.operator import RepairReport
from embedq.settings import load

REFRESH_SECONDS = 1.0


def status(
    *,
    url: Url = None,
    as_json: Json = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh every second until Ctrl-C.")] = False,
) -> None:
    """Show the queue, its coverage and its workers."""
    if watch and not as_json:
        with suppress(KeyboardInterrupt):
            asyncio.run(_watch(url))
        return
    found = ask(url, lambda app: app.operator.status())
    if as_json:
        print_json(found.facts())
    else:
        screen = console()
        screen.print(page(found, load(url=url).url, width=screen.width))


def jobs(
    *,
    state: Annotated[JobStatus | None, typer.Option("--status", "-s", help="Only jobs of this status.")] = None,
    collection: InCollection = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List jobs."""
    which = JobFilter(status=state, collection=collection)
    found = ask(url, lambda app: app.operator.jobs(which, limit=limit, cursor=cursor))
    if as_json:
        print_json({"jobs": found.items, "next_cursor": found.next_cursor})
    elif not found.items:
        say("no jobs", shade="dim")
    else:
        columns = ("=job", "collection", "record", "=status", ">attempts", "=created", ">took", "error")
        console().print(table(columns, [_row(job) for job in found.items]))
        _more(found.next_cursor)


def pause(*, url: Url = None, as_json: Json = False) -> None:
    """Stop all leasing, in every process; jobs that are leased are finished."""
    ask(url, lambda app: app.operator.pause(), make=True)
    print_json({"status": "paused"}) if as_json else say(
        "paused: nothing is leased until `embedq resume`", shade="yellow"
    )


def resume(*, url: Url = None, as_json: Json = False) -> None:
    """Let leasing go on, and try halted embedders again."""
    ask(url, lambda app: app.operator.resume(), make=True)
    print_json({"status": "resumed"}) if as_json else say("resumed")


def drain(
    *,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait at most.")] = 300,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Wait until nothing is left that can still move (when paused: until no job is leased)."""
    report = ask(url, lambda app: app.operator.drain(timeout))
    what = "no job is leased (the queue is paused)" if report.waited_for == "leased" else "the queue is empty"
    if as_json:
        print_json(report.facts())
    elif report.status == "drained":
        say(f"drained in {report.elapsed:.1f} s: {what}; {report.pending:,} pending")
    else:
        say(f"after {report.elapsed:.1f} s {report.remaining:,} jobs are left", shade="yellow")
    if report.status != "drained":
        raise typer.Exit(1)


def retry_failed(*, collection: InCollection = None, url: Url = None, as_json: Json = False) -> None:
    """Arm all dead letters again."""
    revived = ask(url, lambda app: app.operator.retry_failed(collection))
    if as_json:
        print_json({"retried": revived.facts()})
        return
    say(f"{revived.total:,} dead letters go again" if revived.total else "no dead letters")
    for name, number in revived.by_collection.items():
        console().print(f"  {escape(name)}  {number:,}")


def requeue_stale(
    *,
    threshold_minutes: Annotated[
        float | None,
        typer.Option(
            "--threshold-minutes", min=0, help="Also jobs not renewed for so long. Default: expired leases only."
        ),
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Take back jobs whose lease ran out."""
    rescued = ask(url, lambda app: app.operator.requeue_stale(threshold_minutes))
    if as_json:
        print_json({"requeued": rescued, "total": len(rescued)})
    elif not rescued:
        say("no stale jobs")
    else:
        say(f"{len(rescued):,} jobs taken back")
        rows = [
            (job.job_id, escape(job.collection), escape(job.record_id), escape(job.worker_id or ""), shaded(job.status))
            for job in rescued
        ]
        console().print(table(("job", "collection", "record", "worker", "now"), rows))


def repair(
    *,
    deep: Annotated[
        bool, typer.Option("--deep", help="Read every record and its vector; slow, but trusts nothing.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=1, help="Look at so many records at most.")] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Find records with neither vector nor job, and give them one."""
    report = ask(url, lambda app: _repair(app, deep=deep, limit=limit))
    if as_json:
        print_json(report.facts())
        return
    say(f"{report.armed:,} records got a job" if report.armed else "every record has a vector, a job or a reason")
    rows = [
        (escape(name), count(found.missing), count(found.armed), count(found.mended))
        for name, found in report.by_collection.items()
        if found.missing or found.mended
    ]
    if rows:
        console().print(table(("collection", ">without vector", ">given a job", ">mended"), rows))


async def _repair(app: App, *, deep: bool, limit: int | None) -> RepairReport:
    screen = console(errors=True)
    with screen.status("looking for records without a vector …") as line:
        seen = 0

        def tell(collection: str, records: int) -> None:
            nonlocal seen
            seen += records
            line.update(f"{escape(collection)}: {seen:,} records looked at …")

        return await app.operator.repair(deep=deep, limit=limit, progress=tell)


async def _watch(url: str | None) -> None:
    settings = load(url=url)
    check_database(settings)
    async with start(settings, quiet=True) as app:
        screen = console()
        with Live(console=screen, screen=True, auto_refresh=False) as live:
            while True:
                found = page(await app.operator.status(), settings.url, width=screen.width)
                live.update(found, refresh=True)
                await asyncio.sleep(REFRESH_SECONDS)


def _row(job: Job) -> tuple[str, ...]:
    took = f"{job.processing_time_ms:,} ms" if job.processing_time_ms is not None else NOTHING
    error = escape(job.error.message.splitlines()[0][:80]) if job.error and job.error.message else NOTHING
    return (
        job.id,
        escape(job.collection),
        escape(job.record_id),
        shaded(job.status),
        f"{job.attempts}/{job.max_attempts}",
        since(job.created_at),
        took,
        error,
    )


def _more(cursor: str | None) -> None:
    if cursor:
        console().print(f"[dim]more: --cursor {escape(cursor)}[/dim]")
