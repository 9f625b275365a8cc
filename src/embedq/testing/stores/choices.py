"""Which jobs a store may lease, and in which order: what the rules leave open is left open here."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from embedq.model import Ask, JobStatus
from embedq.testing.stores.model import SOLO_CRASHES, JobRow, RulesModel


def waiting(model: RulesModel, ask: Ask, now: datetime) -> list[JobRow]:
    """List the pending jobs of requested spaces that may be worked on."""
    spaces = [space for space in ask.spaces if not model.paused and not model.is_held(space, now)]
    return [row for row in model.jobs if row.status is JobStatus.PENDING and row.record.space in spaces]


def due(model: RulesModel, ask: Ask, now: datetime) -> list[JobRow]:
    """List those of them that are due."""
    return [row for row in waiting(model, ask, now) if model.is_due(row, now)]


def check_choice(
    model: RulesModel, ask: Ask, rows: Sequence[JobRow], again_after: timedelta | None, now: datetime
) -> None:
    """Lanes are strict and older goes first, but a lease may start at the lowest lane; crashed jobs go alone."""
    able, ready = waiting(model, ask, now), due(model, ask, now)
    for row in ready:
        row.was_due = True  # from now on a store may have it in the ready queue, even if the clock is set back
    assert all(row in able and row.was_due for row in rows), "a job was leased that may not be"
    if not rows:
        _check_nothing(ask, ready, [row for row in able if row not in ready], again_after, now)
    elif any(row.crashes >= SOLO_CRASHES for row in rows):
        assert len(rows) == 1, "a job that crashed twice was not leased alone"
        assert not ask.prefetch, "a job that crashed twice was fetched ahead"
    else:
        [space] = {row.record.space for row in rows}
        line = {row for row in (*ready, *rows) if row.record.space == space and row.crashes < SOLO_CRASHES}
        _check_order(rows, line, ask.limit)


def _check_nothing(
    ask: Ask, ready: Sequence[JobRow], rest: Sequence[JobRow], again_after: timedelta | None, now: datetime
) -> None:
    """An empty answer is right if nothing is due, and says when to ask again."""
    able = [row for row in ready if row.crashes < SOLO_CRASHES or not ask.prefetch]
    assert not able, "a job that is due was not leased"
    if rest:
        assert again_after is not None, "jobs wait, and nobody says how long"
        assert now + again_after <= min(row.due_at for row in rest), "the hint comes too late"


def _check_order(rows: Sequence[JobRow], line: set[JobRow], limit: int) -> None:
    """The first jobs were taken, as many as requested; or first the lowest lane, then the first of the rest."""
    strict = sorted(_place(row) for row in line)
    lowest = strict[-1][0]
    last_lane = [place for place in strict if place[0] == lowest]
    others = [place for place in strict if place[0] != lowest]
    allowed = (strict[:limit], [*last_lane, *others][:limit])
    assert [_place(row) for row in rows] in allowed, "the order of the line was not kept"


def _place(row: JobRow) -> tuple[int, datetime]:
    return -row.priority, row.queued_at
