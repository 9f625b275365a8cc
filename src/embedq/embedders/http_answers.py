"""What a provider's answer over HTTP means: its status, its Retry-After, and the rate limits in its headers."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import isfinite

from embedq.embedding import Allowance, ToldLimits
from embedq.errors import Critical, EmbedderError, NotNow, Permanent, Transient, Unavailable

_REFUSED_INPUT = {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
_REFUSED_CALLER = {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}
_LONGEST_WAIT = timedelta(days=1)
_SPAN = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?", re.ASCII)
_SECONDS = (3600.0, 60.0, 1.0, 0.001)  # of each unit of a span


def error_of(status: int, message: str, *, retry_after: timedelta | None = None) -> EmbedderError:
    """Map an HTTP status to an error. An unknown status counts as transient."""
    code = str(status)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return NotNow(message, retry_after=retry_after, code=code)
    if status in _REFUSED_INPUT:
        return Permanent(message, code=code)
    if status in _REFUSED_CALLER:
        return Critical(message, code=code)
    if status == HTTPStatus.NOT_FOUND or status < HTTPStatus.BAD_REQUEST:  # no such model, or a redirect
        return Unavailable(message, code=code)
    return Transient(message, code=code)


def retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Read how long the provider asks to wait: milliseconds, seconds, or a date against its own clock."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return _bounded(milliseconds / 1000)
    asked = headers.get("retry-after")
    if (seconds := _number(asked)) is not None:
        return _bounded(seconds)
    until = _moment(asked)
    if until is None:
        return None
    return _bounded((until - (_moment(headers.get("date")) or datetime.now(UTC))).total_seconds())


def told_limits(headers: Mapping[str, str]) -> ToldLimits | None:
    """Read the rate limits of `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`. None: there are none."""
    told = ToldLimits(requests=_allowance(headers, "requests"), tokens=_allowance(headers, "tokens"))
    return None if told == ToldLimits() else told


def encoded(texts: list[str]) -> list[bytes]:
    """Encode the texts in UTF-8. A lone surrogate cannot be encoded: Permanent."""
    try:
        return [text.encode() for text in texts]
    except UnicodeEncodeError as error:
        raise Permanent("A text holds a lone surrogate, which is not Unicode text.", code="invalid_text") from error


def _allowance(headers: Mapping[str, str], what: str) -> Allowance | None:
    found = Allowance(
        limit=_count(headers.get(f"x-ratelimit-limit-{what}")),
        remaining=_count(headers.get(f"x-ratelimit-remaining-{what}")),
        reset_after=_span(headers.get(f"x-ratelimit-reset-{what}")),
    )
    return None if found == Allowance() else found


def _count(value: str | None) -> int | None:
    number = _number(value)
    return int(number) if number is not None and isfinite(number) and number >= 0 else None


def _span(value: str | None) -> timedelta | None:
    """Read a span such as `6m0s`, `1h2m3.5s` or `20ms`; a bare number is seconds."""
    if (seconds := _number(value)) is not None:
        return _bounded(seconds)
    parts = _SPAN.fullmatch(value or "")
    if parts is None or not any(parts.groups()):
        return None
    return _bounded(sum(float(part) * unit for part, unit in zip(parts.groups(), _SECONDS, strict=True) if part))


def _number(value: str | None) -> float | None:
    try:
        return float(value) if value is not None else None
    except ValueError:
        return None


def _moment(value: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value) if value else None
    except (ValueError, OverflowError):
        return None
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def _bounded(seconds: float) -> timedelta | None:
    if seconds != seconds:  # noqa: PLR0124 - only NaN differs from itself
        return None
    return timedelta(seconds=min(max(seconds, 0.0), _LONGEST_WAIT.total_seconds()))
