"""Dates and moments in attributes and filters, as ISO 8601 writes them."""

import re
from datetime import UTC, date, datetime, timedelta

# What is a moment, and what is text that only looks like one. PostgreSQL has the same in `functions/filtering.sql`.
MOMENT = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ]((?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?)"
    r"(Z|[+-](?:0\d|1[0-4]):?[0-5]\d)?)?",
    re.ASCII,
)
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 offsets are subtracted by hand, so that no year is out of bounds
MICROSECOND = timedelta(microseconds=1)
FRACTION = 15  # characters of a time with microseconds; PostgreSQL has no finer ones


def microseconds(text: str) -> int | None:
    """Return the microseconds from 1970 to a moment, in UTC unless it has an offset; None: this is no moment."""
    found = MOMENT.fullmatch(text)
    if found is None:
        return None
    day, time, offset = found.groups()
    try:
        local = datetime.fromisoformat(f"{day}T{(time or '00:00')[:FRACTION]}")
    except ValueError:  # no such day
        return None
    return (local - EPOCH - _offset(offset)) // MICROSECOND


def instant(value: object) -> datetime | None:
    """Read an operand that is a moment, in UTC; None: it is something else. What leaves the calendar: OverflowError."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    since = microseconds(value) if isinstance(value, str) else None
    return None if since is None else EPOCH.replace(tzinfo=UTC) + since * MICROSECOND


def since_epoch(moment: datetime) -> int:
    """Return the microseconds from 1970 to an operand."""
    return (moment.replace(tzinfo=None) - EPOCH) // MICROSECOND


def days_around(moment: datetime) -> tuple[str, str]:
    """Return texts below and above every way to write a moment: its day may differ by an offset."""
    day = timedelta(days=1)
    low = moment - day if moment - datetime.min.replace(tzinfo=UTC) > day else None
    high = moment + 2 * day if datetime.max.replace(tzinfo=UTC) - moment > 2 * day else None
    return low.date().isoformat() if low else "", high.date().isoformat() if high else ":"


def _offset(written: str | None) -> timedelta:
    if written is None or written == "Z":
        return timedelta()
    sign = -1 if written[0] == "-" else 1
    return sign * timedelta(hours=int(written[1:3]), minutes=int(written[-2:]))
