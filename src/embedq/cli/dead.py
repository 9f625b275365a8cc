"""Commands about dead letters: jobs that failed for good, kept with their reason."""

from typing import Annotated

import typer
from rich.markup import escape

from embedq.cli.options import Cursor, InCollection, Json, Limit, Url, ask
from embedq.cli.output import NOTHING, console, count, print_json, say, since, table
from embedq.model import Job, JobFilter, JobStatus, Reason

commands = typer.Typer(no_args_is_help=True, help="Look at dead letters and replay them.")

WithReason = Annotated[Reason | None, typer.Option("--reason", "-r", help="Only those with this reason.")]
SHOWN_MESSAGE = 120


@commands.command("list")
def list_(
    *,
    collection: InCollection = None,
    reason: WithReason = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List dead letters with their reasons."""
    found = ask(url, lambda app: app.operator.dead(collection=collection, reason=reason, limit=limit, cursor=cursor))
    if as_json:
        print_json({"jobs": found.items, "next_cursor": found.next_cursor})
    elif not found.items:
        say("no dead letters")
    else:
        columns = ("=job", "collection", "record", "=reason", ">attempts", "=last tried", "error")
        console().print(table(columns, [_row(job) for job in found.items]))
        if found.next_cursor:
            console().print(f"[dim]more: --cursor {escape(found.next_cursor)}[/dim]")


@commands.command()
def stats(*, url: Url = None, as_json: Json = False) -> None:
    """Group dead letters by their causes."""
    groups = ask(url, lambda app: app.operator.dead_stats())
    if as_json:
        print_json({"groups": groups, "total": sum(int(group["count"]) for group in groups)})
    elif not groups:
        say("no dead letters")
    else:
        rows = [
            (
                *(escape(str(group.get(name) or "-")) for name in ("collection", "reason", "category", "code")),
                count(int(group["count"])),
            )
            for group in groups
        ]
        console().print(table(("collection", "reason", "category", "code", ">count"), rows))


@commands.command()
def replay(
    *,
    job: Annotated[str | None, typer.Argument(help="One job; without it all that match.", metavar="JOB")] = None,
    every: Annotated[bool, typer.Option("--all", help="Replay all dead letters.")] = False,
    collection: InCollection = None,
    reason: WithReason = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Arm dead letters again: one job, or all that match."""
    if job is None and not (every or collection or reason):
        raise typer.BadParameter("name a job, or say which: --all, --collection, --reason")
    if job is not None:
        revived = ask(url, lambda app: app.operator.replay(job))
        print_json(revived) if as_json else say(f"job {revived.id} is {revived.status} again")
        return
    which = JobFilter(status=JobStatus.FAILED, collection=collection, reason=reason)
    found = ask(url, lambda app: app.operator.replay_all(which))
    print_json({"replayed": found.facts()}) if as_json else say(f"{found.total:,} dead letters go again")


def _row(job: Job) -> tuple[str, ...]:
    message = escape(job.error.message.splitlines()[0][:SHOWN_MESSAGE]) if job.error and job.error.message else NOTHING
    return (
        job.id,
        escape(job.collection),
        escape(job.record_id),
        escape(job.reason or "-"),
        f"{job.attempts}/{job.max_attempts}",
        since(job.last_attempt_at or job.completed_at),
        message,
    )
