"""What the OpenAI SDK's errors mean. The key is redacted in every message, even if a server echoes it."""

from collections.abc import Mapping, Sequence

import openai

from embedq.embedders.http_answers import error_of, retry_after
from embedq.embedders.http_errors import Wording, chain, hidden, key_hints, redact
from embedq.embedders.openai import BASE_URL, KEY
from embedq.errors import EmbedderError, Transient

_WORDING = Wording(address=BASE_URL, hints=key_hints(KEY, BASE_URL))


def translated(error: openai.OpenAIError, *, key: str, texts: Sequence[str]) -> EmbedderError:
    """Translate an SDK error into one of ours, with neither the key nor the texts in its message."""
    said = hidden(_said(error), key, texts)
    _redact(error, key, texts)
    if isinstance(error, openai.APIStatusError):
        message = _WORDING.refusal(error.status_code, said)
        return error_of(error.status_code, message, retry_after=retry_after(error.response.headers))
    if isinstance(error, openai.APIConnectionError):
        return _WORDING.unanswered(error, is_timeout=isinstance(error, openai.APITimeoutError))
    return Transient(f"The provider's answer could not be understood ({type(error).__name__}).", code="bad_answer")


def _said(error: openai.OpenAIError) -> str:
    """Find the provider's own message; the SDK wraps it in the status and the whole body."""
    body = getattr(error, "body", None)
    told = body.get("message") if isinstance(body, Mapping) else None
    if isinstance(told, str) and told.strip():
        return told
    status = getattr(error, "status_code", "")
    return str(getattr(error, "message", "")).removeprefix(f"Error code: {status}").removeprefix(" - ")


def _redact(error: openai.OpenAIError, key: str, texts: Sequence[str]) -> None:
    redact(error, key, texts)
    for link in chain(error):
        if isinstance(link, openai.APIError):
            link.message = hidden(link.message, key, texts)
            link.body = None
