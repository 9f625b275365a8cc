"""Errors of any HTTP client: their chain of causes, what they quote, and what they mean."""

import re
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from embedq.errors import EmbedderError, Transient, Unavailable
from embedq.policy.echoes import unescaped, without_texts

_LONGEST_MESSAGE = 300
_HIDDEN = "***"
_REDIRECTS = range(300, 400)
# By name, since an SDK's HTTP library is httpx in some versions and httpx2 in others.
_NEVER_REACHED = {"ConnectError", "ConnectTimeout", "ProxyError", "UnsupportedProtocol"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """The wording of a provider's errors: what to check, by the names of its variables, and never its key."""

    address: str  # the variable of its address
    hints: Mapping[int, str] = field(default_factory=dict)  # by status

    def refusal(self, status: int, said: str) -> str:
        """Write the provider's own message, and what to do about it."""
        said = said[:_LONGEST_MESSAGE].strip()
        answered = f"The provider answered {status}: {said}" if said else f"The provider answered {status}"
        moved = f"It points to another address, where nothing is sent: check {self.address}."
        hint = moved if status in _REDIRECTS else self.hints.get(status)
        return f"{answered.rstrip('.')}. {hint}" if hint else answered

    def unanswered(self, error: BaseException, *, is_timeout: bool) -> EmbedderError:
        """Map a missing answer to an error: never connected, or lost on the way."""
        reasons = list(chain(error.__cause__))
        names = {parent.__name__ for reason in reasons for parent in type(reason).__mro__}
        detail = next((type(reason).__name__ for reason in reasons), type(error).__name__)
        if names & _NEVER_REACHED or any(isinstance(reason, ssl.SSLError) for reason in reasons):
            return Unavailable(f"The provider cannot be reached ({detail}). Check {self.address}.", code="unreachable")
        if is_timeout:
            return Transient("The provider did not answer in time.", code="timeout")
        return Transient(f"The connection was lost mid-way ({detail}).", code="connection_lost")


def key_hints(key: str, address: str) -> dict[int, str]:
    """Say what to check for the statuses that concern the key or the model."""
    return {
        401: f"Check {key}.",
        403: f"Check what the key in {key} may do.",
        404: f"Check the model's name and {address}.",
    }


def hidden(part: Any, key: str, texts: Sequence[str]) -> Any:  # noqa: ANN401 - an exception's argument
    """Redact the key and the texts in a part of an error."""
    if isinstance(part, str):  # unescaped first, or an escaped key would not be found
        return without_texts(re.sub(re.escape(key), _HIDDEN, unescaped(part), flags=re.IGNORECASE), texts)
    return part if part is None or isinstance(part, int) else _HIDDEN


def redact(error: BaseException, key: str, texts: Sequence[str]) -> None:
    """Remove the key and the texts from an error and its causes, since stack traces show them."""
    for link in chain(error):
        link.args = tuple(hidden(part, key, texts) for part in link.args)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """List an error and its causes, each once."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
