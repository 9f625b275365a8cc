"""What the OpenAI SDK's errors mean. The key is kept out of every message, whatever a server echoes."""

import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

import openai

from embedq.embedders.http_answers import error_of
from embedq.errors import EmbedderError, Transient, Unavailable
from embedq.policy.echoes import unescaped, without_texts

_LONGEST_MESSAGE = 300
_LONGEST_WAIT = timedelta(days=1)
# By name, since the SDK's HTTP library is httpx in some versions and httpx2 in others.
_NEVER_REACHED = {"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"}
_REDIRECTS = range(300, 400)
_MOVED = "It points to another address, where nothing is sent: check OPENAI_BASE_URL."
_HINTS = {
    401: "Check OPENAI_API_KEY.",
    403: "Check what the key in OPENAI_API_KEY may do.",
    404: "Check the model's name and OPENAI_BASE_URL.",
}


def translated(error: openai.OpenAIError, *, key: str, texts: Sequence[str]) -> EmbedderError:
    """Say which of our kinds an SDK error is, in words that hold neither the key nor the texts."""
    said = _hidden(_said(error), key, texts)
    _redact(error, key, texts)
    if isinstance(error, openai.APIStatusError):
        message = _refusal(error.status_code, said[:_LONGEST_MESSAGE].strip())
        return error_of(error.status_code, message, retry_after=retry_after(error.response.headers))
    if isinstance(error, openai.APIConnectionError):
        return _unanswered(error)
    return Transient(f"The provider's answer could not be understood ({type(error).__name__}).", code="bad_answer")


def _said(error: openai.OpenAIError) -> str:
    """Find the provider's own words; the SDK wraps them in the status and the whole body."""
    body = getattr(error, "body", None)
    told = body.get("message") if isinstance(body, Mapping) else None
    if isinstance(told, str) and told.strip():
        return told
    status = getattr(error, "status_code", "")
    return str(getattr(error, "message", "")).removeprefix(f"Error code: {status}").removeprefix(" - ")


def _refusal(status: int, said: str) -> str:
    answered = f"The provider answered {status}: {said}" if said else f"The provider answered {status}"
    hint = _MOVED if status in _REDIRECTS else _HINTS.get(status)
    return f"{answered.rstrip('.')}. {hint}" if hint else answered


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


def _unanswered(error: openai.APIConnectionError) -> EmbedderError:
    reasons = list(_chain(error.__cause__))
    names = {parent.__name__ for reason in reasons for parent in type(reason).__mro__}
    detail = next((type(reason).__name__ for reason in reasons), type(error).__name__)
    if names & _NEVER_REACHED or any(isinstance(reason, ssl.SSLError) for reason in reasons):
        return Unavailable(f"The provider cannot be reached ({detail}). Check OPENAI_BASE_URL.", code="unreachable")
    if isinstance(error, openai.APITimeoutError):
        return Transient("The provider did not answer in time.", code="timeout")
    return Transient(f"The connection was lost mid-way ({detail}).", code="connection_lost")


def _redact(error: BaseException, key: str, texts: Sequence[str]) -> None:
    # The error stays as cause, and its text ends up in stack traces.
    for link in _chain(error):
        link.args = tuple(_hidden(part, key, texts) for part in link.args)
        if isinstance(link, openai.APIError):
            link.message = _hidden(link.message, key, texts)
            link.body = None


def _hidden(part: Any, key: str, texts: Sequence[str]) -> Any:  # noqa: ANN401 - whatever an exception carries
    if isinstance(part, str):  # what is escaped is read first, or the key would come out of it later
        return without_texts(re.sub(re.escape(key), "***", unescaped(part), flags=re.IGNORECASE), texts)
    return part if part is None or isinstance(part, int) else "***"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _number(value: str | None) -> float | None:
    try:
        return float(value) if value is not None else None
    except ValueError:
        return None


def _moment(value: str | None) -> datetime | None:
    try:
        moment = parsedate_to_datetime(value) if value else None
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment and moment.tzinfo is None else moment


def _bounded(seconds: float) -> timedelta | None:
    if seconds != seconds:  # noqa: PLR0124 - only NaN differs from itself
        return None
    return timedelta(seconds=min(max(seconds, 0.0), _LONGEST_WAIT.total_seconds()))
