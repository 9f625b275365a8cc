"""One line per event, as JSON or for people. It has no keys; texts only as length and hash, unless configured."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from hashlib import sha256
from math import isfinite
from typing import Any, TextIO

import structlog

from embedq.policy.printable import literal, safe_json, writes_unicode
from embedq.telemetry import Event, Facts

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
HIDDEN = "[hidden]"
LEAST_SECRET = 4  # redacting a shorter value would make lines unreadable
TEXT_FACTS = frozenset({"text", "texts", "query", "words", "observations"})


class Journal:
    """A telemetry handler that writes log lines."""

    def __init__(
        self,
        *,
        stream: TextIO | None = None,
        level: str = "info",
        log_text: bool = False,
        secrets: Iterable[str] = (),
        form: str = "auto",
    ) -> None:
        """Write events of at least this level to this stream (stderr if none), without these secrets.

        The form is `json`, `text`, or `auto`: text on a terminal, else JSON.
        """
        target = stream or sys.stderr
        self._least = LEVELS[level]
        self._log_text = log_text
        self._secrets = tuple(secret for secret in secrets if len(secret) >= LEAST_SECRET)
        is_text = form == "text" or (form == "auto" and _is_terminal(target))
        self._render: Callable[[str, dict[str, Any]], str] = _text(target) if is_text else _json(target)
        self._logger = structlog.WriteLogger(target)

    def __call__(self, event: Event, level: str, facts: Facts) -> None:
        """Write one event."""
        if LEVELS[level] < self._least:
            return
        line: dict[str, Any] = {
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "level": level,
            "event": event.value,
        }
        line |= {name: self._fact(name, value) for name, value in facts.items()}
        try:
            self._logger.msg(self._render(level, line))
        except (OSError, ValueError):  # a full disk or a closed terminal must not stop the queue
            return

    def _fact(self, name: str, value: object) -> object:
        return self._plain(_named(value) if name in TEXT_FACTS and not self._log_text else value)

    def _plain(self, value: object) -> object:
        """Convert a fact to what JSON can hold."""
        match value:
            case Mapping():
                return {self._scrub(str(key)): self._fact(str(key), item) for key, item in value.items()}
            case list() | tuple() | set() | frozenset():
                return [self._plain(item) for item in value]
            case None | bool() | int():
                return value
            case _:
                number = _number(value)
                return self._scrub(_words(value)) if number is None else number

    def _scrub(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return text.encode(errors="backslashreplace").decode()  # a lone surrogate cannot be encoded


def _is_terminal(stream: TextIO) -> bool:
    return not stream.closed and stream.isatty()


def _json(stream: TextIO) -> Callable[[str, dict[str, Any]], str]:
    render = structlog.processors.JSONRenderer(ensure_ascii=not writes_unicode(stream))
    return lambda level, line: safe_json(str(render(None, level, line)))


def _text(stream: TextIO) -> Callable[[str, dict[str, Any]], str]:
    """Write lines for people: a fact is on the event's line, except for a stack."""
    colours = _is_terminal(stream) and not os.environ.get("NO_COLOR")
    render = structlog.dev.ConsoleRenderer(colors=colours, sort_keys=False)

    def written(level: str, line: dict[str, Any]) -> str:
        shown = {name: _printable(name, value) for name, value in line.items()}
        return str(render(None, level, shown))

    return written


def _printable(name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    return literal(value) if name == "stack" else literal(value).replace("\n", " ")


def _named(value: object) -> object:
    """Replace a text by its length and hash; other values, such as counts, stay."""
    if isinstance(value, list | tuple):
        return [_named(item) for item in value]
    if not isinstance(value, str):
        return value
    digest = sha256(value.encode(errors="surrogatepass")).hexdigest()
    return {"length": len(value), "sha256": digest[:16]}


def _number(value: object) -> float | None:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return seconds if isinstance(seconds, float) and isfinite(seconds) else None


def _words(value: object) -> str:
    match value:
        case Enum():
            return str(value.value)
        case date():
            return value.isoformat()
        case bytes():
            return value.hex()
        case _:
            return str(value)
