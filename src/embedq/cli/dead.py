"""Commands about dead letters: jobs that failed permanently, kept with their reason."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from embedq.cli.options import Cursor, InCollection, Json, Limit, OfTenant, Url, ask
from embedq.cli.output import console, count, message_of, more, nothing, print_json, say, since
from embedq.cli.tables import Cell, Column, table
from embedq.model import Job, JobFilter, JobStatus, Reason
from embedq.operator import DeadReason
from embedq.operator.report import counted
from embedq.shapes import jobs as shapes
from embedq.shapes.queue import Replayed

commands = typer.Typer(no_args_is_help=True, help="Look at dead letters and replay them.")

WithReason = Annotated[DeadReason | None, typer.Option("--reason", "-r", help="Only those with this reason.")]
LETTERS = (
    Column(name="job"),
    Column(name="collection", least=10, worth=3),
    Column(name="record", key=True),
    Column(name="reason", worth=4),
    Column(name="attempts", right=True, worth=1),
    Column(name="last tried", worth=2),
    Column(name="error", least=20, wraps=True, if_any=True),
)
CAUSES = (
    Column(name="count", right=True),
    Column(name="collection", least=10, worth=5),
    Column(name="reason", worth=6),
    Column(name="category", worth=1),
    Column(name="code", least=8, worth=3),
    Column(name="newest", worth=2),
    Column(name="for example", least=40, wraps=True, if_any=True, worth=4),
)


@commands.command("list")
def list_(
    *,
    collection: InCollection = None,
    reason: WithReason = None,
    tenant: OfTenant = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List dead letters with their reasons."""
    why = None if reason is None else Reason(reason)
    found = ask(
        url,
        lambda app: app.operator.dead(collection=collection, reason=why, tenant=tenant, limit=limit, cursor=cursor),
    )
    if as_json:
        print_json(shapes.DeadPage.of(found))
    elif not found.items:
        say("no dead letters")
    else:
        screen = console()
        screen.print(table(LETTERS, [_row(job) for job in found.items], width=screen.width))
        more(found.next_cursor)


@commands.command()
def stats(*, tenant: OfTenant = None, url: Url = None, as_json: Json = False) -> None:
    """Group dead letters by their causes."""
    groups = ask(url, lambda app: app.operator.dead_stats(tenant=tenant))
    if as_json:
        print_json(shapes.DeadStats.of(groups))
    elif not groups:
        say("no dead letters")
    else:
        screen = console()
        screen.print(table(CAUSES, [_cause(group) for group in groups], width=screen.width))


@commands.command()
def replay(
    *,
    job: Annotated[str | None, typer.Argument(help="One job; without it all that match.", metavar="JOB")] = None,
    every: Annotated[bool, typer.Option("--all", help="Replay all dead letters.")] = False,
    collection: InCollection = None,
    reason: WithReason = None,
    tenant: OfTenant = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Arm dead letters again: one job, or all that match."""
    if job is None and not (every or collection or reason or tenant):
        raise typer.BadParameter("name a job, or say which: --all, --collection, --reason, --tenant")
    if job is not None:
        revived = ask(url, lambda app: app.operator.replay(job, tenant=tenant))
        print_json(shapes.Job.of(revived)) if as_json else say(f"job {revived.id} is {revived.status} again")
        return
    why = None if reason is None else Reason(reason)
    which = JobFilter(status=JobStatus.FAILED, collection=collection, reason=why, tenant=tenant)
    found = ask(url, lambda app: app.operator.replay_all(which))
    if as_json:
        print_json(Replayed.of(found))
    else:
        say(f"armed again: {counted(found.total, 'dead letter')}" if found.total else "no dead letters")


def _row(job: Job) -> tuple[Cell, ...]:
    return (
        job.id,
        job.collection,
        job.record_id,
        job.reason or nothing(),
        f"{job.attempts}/{job.max_attempts}",
        since(job.last_attempt_at or job.completed_at),
        message_of(job.error.message if job.error else None),
    )


def _cause(group: Mapping[str, Any]) -> tuple[Cell, ...]:
    return (
        count(int(group["count"])),
        *(str(group[name]) if group.get(name) else nothing() for name in ("collection", "reason", "category", "code")),
        since(group.get("newest_at")),
        message_of(group.get("example")),
    )
