"""Moments are the database's own: `timestamptz` in, `timestamptz` out. Without one, the database's clock is used."""

from datetime import datetime, timedelta

NOW = "coalesce($1::timestamptz, clock_timestamp())"  # the moment a test passes in, else the database's clock


def seconds(length: timedelta) -> float:
    """Write a span for JSON."""
    return length.total_seconds()


def milliseconds(length: timedelta) -> int:
    """Count a span in whole milliseconds."""
    return round(length.total_seconds() * 1000)


def text_of(moment: datetime | None) -> str | None:
    """Write a moment for JSON."""
    return None if moment is None else moment.isoformat()
