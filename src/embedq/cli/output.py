"""Formats output for a terminal, and as JSON for programs.

Markup and emoji names are off, so a plain string is printed as it is; only `Text` has colour.
"""

import json
import os
import sys
from datetime import UTC, datetime, timedelta

from pydantic_core import to_jsonable_python
from rich.console import Console
from rich.text import Text

from embedq.model import Priority
from embedq.policy.printable import literal, safe_json, writes_unicode

SHADES = {
    "HEALTHY": "green",
    "DEGRADED": "yellow",
    "CRITICAL": "bold red",
    "embedded": "green",
    "completed": "green",
    "pending": "cyan",
    "processing": "blue",
    "retrying": "yellow",
    "failed": "red",
    "cancelled": "dim",
    "ok": "green",
    "warning": "yellow",
    "problem": "red",
}
DASH = "-"
SHOWN_MESSAGE = 120
ENDLESS = 100_000  # columns: wider than any line we print
MINUTE, HOUR, DAY = 60, 3600, 86_400


def console(*, errors: bool = False) -> Console:
    """Make a console on the current stdout or stderr, as wide as the terminal or COLUMNS.

    A pipe has no width: its lines are not wrapped.
    """
    piped = not (sys.stderr if errors else sys.stdout).isatty() and not os.environ.get("COLUMNS")
    width = ENDLESS if piped else None
    return Console(stderr=errors, width=width, highlight=False, soft_wrap=False, markup=False, emoji=False)


def complain(message: str) -> None:
    """Print an error on stderr."""
    console(errors=True).print(Text.assemble(("embedq: ", "bold red"), literal(message)), soft_wrap=True)


def say(message: str, *, shade: str = "green", errors: bool = False) -> None:
    """Print what was done on stdout, or another message on stderr."""
    console(errors=errors).print(Text.assemble(("● ", shade), literal(message)), soft_wrap=True)


def warn(message: str) -> None:
    """Print a warning."""
    console().print(Text.assemble(("! ", "yellow"), literal(message)), soft_wrap=True)


def more(cursor: str | None) -> None:
    """Print how to get the next page."""
    if cursor:
        console().print(Text(f"more: --cursor {cursor}", "dim"), soft_wrap=True)


def print_json(facts: object, *, indent: int | None = 2) -> None:
    """Print JSON for a program: a shape is serialised as in the API; without an indent it is one line."""
    written = json.dumps(to_jsonable_python(facts), ensure_ascii=not writes_unicode(sys.stdout), indent=indent)
    sys.stdout.write(safe_json(written) + "\n")
    sys.stdout.flush()


def one_line(value: str) -> str:
    """Put a text on one line."""
    return " ".join(value.split())


def message_of(said: str | None) -> str | Text:
    """Show the beginning of an error's message."""
    text = one_line(said or "")
    return nothing() if not text else text if len(text) <= SHOWN_MESSAGE else f"{text[: SHOWN_MESSAGE - 1]}…"


def shaded(word: str) -> Text:
    """Colour a status or health."""
    return Text(word, SHADES.get(word, ""))


def nothing() -> Text:
    """Write a dim dash for an empty cell."""
    return Text(DASH, "dim")


def count(number: int, *, shade: str = "") -> Text:
    """Write a count; zero is a dash."""
    return Text(f"{number:,}", shade) if number else nothing()


def share(part: float) -> Text:
    """Write a percentage, never rounded up to 100."""
    return Text(f"{int(part * 1000) / 10:g} %", "green" if part >= 1 else "")


def span(value: timedelta | None) -> Text:
    """Write a duration in a readable form."""
    return nothing() if value is None else Text(_said(max(0.0, value.total_seconds())))


def since(moment: datetime | None) -> Text:
    """Say how long ago a moment was."""
    return nothing() if moment is None else span(datetime.now(UTC) - moment).append(" ago")


def lane(priority: Priority) -> str:
    """Name a priority."""
    return priority.name.lower()


def _said(seconds: float) -> str:
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} m {int(seconds % MINUTE):02} s"
    if seconds < DAY:
        return f"{int(seconds // HOUR)} h {int(seconds % HOUR // MINUTE):02} m"
    return f"{seconds / DAY:.1f} d"
