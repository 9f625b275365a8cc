"""The queue on one screen."""

from collections.abc import Sequence
from datetime import timedelta

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text

from embedq.cli.output import count, shaded, share, since, span, table
from embedq.model import Counts, Worker
from embedq.operator import QueueStatus
from embedq.operator.report import coverage

STATES = {"pending": "cyan", "processing": "blue", "completed": "", "failed": "red", "cancelled": ""}
WIDE = 100  # columns; a narrower screen has no room for the cancelled
ALWAYS = ("pending", "processing", "completed")  # the others are shown only where there are any


def page(status: QueueStatus, url: str, *, width: int) -> RenderableType:
    """Lay out the whole status on a screen of this width."""
    parts: list[RenderableType] = [_headline(status, url), _collections(status, wide=width >= WIDE)]
    if status.workers:
        parts.append(_workers(status.workers))
    parts += [Text.from_markup(f"[yellow]![/yellow] {escape(note)}") for note in status.notes]
    return Group(*parts)


def _headline(status: QueueStatus, url: str) -> Text:
    state = "[yellow]paused[/yellow]" if status.paused else "[green]running[/green]"
    alive = sum(worker.alive for worker in status.workers)
    return Text.from_markup(
        f"[bold]embedq[/bold]  {escape(url)}   {state}   {shaded(status.health.value)}   {alive} workers"
    )


def _collections(status: QueueStatus, *, wide: bool) -> RenderableType:
    if not status.counts:
        return Text.from_markup("\n[dim]no collections yet: `embedq put COLLECTION FILE` makes the first[/dim]\n")
    states = [state for state in STATES if state in ALWAYS or (status.total(state) and (wide or state == "failed"))]
    rows = [
        _row(escape(name), counts, states, status.oldest_pending.get(name))
        for name, counts in sorted(status.counts.items())
    ]
    if len(rows) > 1:
        oldest = max(status.oldest_pending.values(), default=None)
        rows.append(_row("[bold]all[/bold]", _sum(list(status.counts.values())), states, oldest))
    return table(("collection", ">records", ">embedded", *(f">{state}" for state in states), ">oldest"), rows)


def _row(label: str, counts: Counts, states: Sequence[str], waits: timedelta | None) -> tuple[str, ...]:
    return (
        label,
        count(counts.records),
        share(coverage(counts.records, counts.missing)),
        *(count(getattr(counts, state), shade=STATES[state]) for state in states),
        span(waits),
    )


def _sum(all_counts: Sequence[Counts]) -> Counts:
    names = ("pending", "processing", "completed", "failed", "cancelled", "records", "missing", "truncated")
    return Counts(**{name: sum(getattr(counts, name) for counts in all_counts) for name in names})


def _workers(workers: Sequence[Worker]) -> RenderableType:
    columns = ("worker", "embedder", "=health", "=seen", ">done", ">failed")
    return table(columns, [_worker(worker) for worker in workers])


def _worker(worker: Worker) -> tuple[str, ...]:
    report = worker.report
    return (
        escape(worker.info.id),
        escape(worker.info.embedder),
        shaded(report.health.value) if worker.alive else "[red]gone[/red]",
        since(worker.seen_at),
        count(report.succeeded),
        count(report.failed, shade="red"),
    )
