"""Moments as this store stores them: whole milliseconds since 1970, by the machine's clock."""

import time
from datetime import UTC, datetime, timedelta

from embedq.policy import jobs

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def clock() -> int:
    """Read the machine's clock, which serves as the database's clock."""
    return time.time_ns() // 1_000_000


def stamp(moment: datetime | None, otherwise: int) -> int:
    """Encode a moment; without one, use the transaction's."""
    return otherwise if moment is None else span(moment - EPOCH)


def span(length: timedelta) -> int:
    """Encode a span."""
    return round(length.total_seconds() * 1000)


SET_BACK = span(jobs.SET_BACK)


def when(stamped: int) -> datetime:
    """Decode a moment."""
    return EPOCH + timedelta(milliseconds=stamped)


def when_or_none(stamped: int | None) -> datetime | None:
    """Decode a moment that may be absent."""
    return None if stamped is None else when(stamped)
