"""The status page of the queue."""

from collections.abc import Sequence
from datetime import timedelta

from rich.console import Group, RenderableType
from rich.text import Text

from embedq.cli.output import count, shaded, share, since, span
from embedq.cli.tables import Cell, Column, table
from embedq.model import Counts, Worker
from embedq.operator import QueueStatus
from embedq.operator.report import counted, coverage
from embedq.policy.printable import literal

STATES = {"pending": "cyan", "processing": "blue", "completed": "", "failed": "red", "cancelled": ""}
COLLECTIONS = (
    Column(name="collection", least=24),
    Column(name="records", right=True, worth=6),
    Column(name="embedded", right=True),
    Column(name="pending", right=True),
    Column(name="processing", right=True, worth=4),
    Column(name="completed", right=True, worth=2),
    Column(name="failed", right=True, worth=8, if_any=True),
    Column(name="cancelled", right=True, worth=1, if_any=True),
    Column(name="oldest", right=True, worth=3, if_any=True),
)
WORKERS = (
    Column(name="worker", key=True),
    Column(name="embedder", least=8, worth=1),
    Column(name="health"),
    Column(name="seen", worth=2),
    Column(name="done", right=True, worth=3),
    Column(name="failed", right=True, worth=4),
)
FEWEST = 3  # collections that are shown on the smallest screen
FRAME = 5  # lines of a table that are not rows


def page(
    status: QueueStatus, url: str, *, width: int, height: int | None = None, rate: Text | None = None
) -> RenderableType:
    """Lay out the status for this width, and for this height if it cannot scroll; `rate` is how fast it goes."""
    head = _headline(status, url, width, rate or Text())
    notes = [Text.assemble(("! ", "yellow"), literal(note)) for note in status.notes]
    rest: list[RenderableType] = [_workers(status.workers, width), *notes] if status.workers else [*notes]
    most = None
    if height is not None:
        workers = len(status.workers) + FRAME if status.workers else 0
        lines = sum(-(-note.cell_len // width) for note in notes)
        most = max(FEWEST, height - FRAME - 2 - len(head) - workers - lines)  # two: the sum and its rule
    return Group(*head, *_collections(status, width, most), *rest)


def _headline(status: QueueStatus, url: str, width: int, rate: Text) -> list[Text]:
    """Write URL and health: in one line, or in two if the screen is narrow."""
    alive = sum(worker.alive for worker in status.workers)
    state = ("paused", "yellow") if status.paused else ("running", "green")
    fleet = counted(alive, "worker") if alive else "no worker"
    where = Text.assemble(("embedq", "bold"), "  ", literal(url), no_wrap=True, overflow="ellipsis")
    how = Text.assemble(state, "   ", shaded(status.health.value), "   ", fleet, "   " if rate else "", rate)
    fits = where.cell_len + 3 + how.cell_len <= width
    return [Text.assemble(where, "   ", how)] if fits else [where, how]


def _collections(status: QueueStatus, width: int, most: int | None) -> list[RenderableType]:
    if not status.counts:
        return [Text("\nno collections yet: `embedq put COLLECTION FILE` makes the first\n", "dim")]
    names = _busiest(status, most)
    rows = [_row(name, status.counts[name], status.oldest_pending.get(name)) for name in names]
    several = len(status.counts) > 1
    if several:
        oldest = max(status.oldest_pending.values(), default=None)
        rows.append(_row(Text("all", "bold"), _sum(list(status.counts.values())), oldest))
    made: list[RenderableType] = [table(COLLECTIONS, rows, width=width, last_is_sum=several)]
    if hidden := len(status.counts) - len(names):
        made.append(Text(f"… and {counted(hidden, 'collection')} with less to do", "dim"))
    return made


def _busiest(status: QueueStatus, most: int | None) -> list[str]:
    """List the collections that fit, by name; if not all do, those with the most activity."""
    names = sorted(status.counts)
    if most is None or len(names) <= most:
        return names

    def inactivity(name: str) -> int:
        counts = status.counts[name]
        return -(counts.failed + counts.pending + counts.processing)

    return sorted(sorted(names, key=inactivity)[: most - 1])


def _row(label: Cell, counts: Counts, waits: timedelta | None) -> tuple[Cell, ...]:
    return (
        label,
        count(counts.records),
        share(coverage(counts.records, counts.uncovered)),
        *(count(getattr(counts, state), shade=shade) for state, shade in STATES.items()),
        span(waits),
    )


def _sum(all_counts: Sequence[Counts]) -> Counts:
    names = ("pending", "processing", "completed", "failed", "cancelled", "records", "truncated")
    sums = {name: sum(getattr(counts, name) for counts in all_counts) for name in names}
    return Counts(**sums, missing=sum(counts.uncovered for counts in all_counts))


def _workers(workers: Sequence[Worker], width: int) -> RenderableType:
    return table(WORKERS, [_worker(worker) for worker in workers], width=width)


def _worker(worker: Worker) -> tuple[Cell, ...]:
    report = worker.report
    return (
        worker.info.id,
        worker.info.embedder,
        shaded(report.health.value) if worker.alive else Text("gone", "red"),
        since(worker.seen_at),
        count(report.succeeded),
        count(report.failed, shade="red"),
    )
