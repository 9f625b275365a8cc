"""How facts look on a terminal, and as JSON for programs."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from embedq.model import Priority

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
NOTHING = "[dim]-[/dim]"
MINUTE, HOUR, DAY = 60, 3600, 86_400


def console(*, errors: bool = False) -> Console:
    """Make a console on stdout or stderr as they are now; tables are as wide as the terminal."""
    return Console(stderr=errors, highlight=False, soft_wrap=False)


def complain(message: str) -> None:
    """Say on stderr what went wrong."""
    console(errors=True).print(f"[bold red]embedq:[/bold red] {escape(message)}", soft_wrap=True)


def say(message: str, *, shade: str = "green", errors: bool = False) -> None:
    """Say on stdout what was done, or on stderr what else happened."""
    console(errors=errors).print(f"[{shade}]●[/{shade}] {escape(message)}", soft_wrap=True)


def print_json(facts: object) -> None:
    """Print facts for a program."""
    sys.stdout.write(json.dumps(plain(facts), ensure_ascii=False, indent=2) + "\n")


def plain(value: object) -> Any:  # noqa: ANN401 whatever JSON can hold
    """Write nouns as JSON can hold them."""
    match value:
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return plain(asdict(value))
        case _:
            return _fact(value)


def _fact(value: object) -> object:
    """Write a moment as ISO, a span as seconds, a priority by its name, a hash as hex."""
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case IntEnum():
            return value.name.lower()
        case bytes():
            return value.hex()
        case _:
            return value


def table(columns: Iterable[str], rows: Iterable[Sequence[str]], *, title: str | None = None) -> Table:
    """Lay facts out in columns; `>` before a name aligns to the right, `=` keeps a short word in one piece."""
    made = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="dim",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name in columns:
        right, whole = name.startswith(">"), name[:1] in {">", "="}
        made.add_column(name.lstrip(">="), justify="right" if right else "left", overflow="fold", no_wrap=whole)
    for row in rows:
        made.add_row(*row)
    return made


def shaded(word: str) -> str:
    """Write a status or health in its colour."""
    shade = SHADES.get(word)
    return f"[{shade}]{word}[/{shade}]" if shade else escape(word)


def count(number: int, *, shade: str = "") -> str:
    """Write a count; nothing is a dash, so that what is there stands out."""
    if not number:
        return NOTHING
    return f"[{shade}]{number:,}[/{shade}]" if shade else f"{number:,}"


def share(part: float) -> str:
    """Write a share, never rounded up to all."""
    percent = int(part * 1000) / 10
    return f"[green]{percent:g} %[/green]" if part >= 1 else f"{percent:g} %"


def span(value: timedelta | None) -> str:
    """Write a span as people say it."""
    if value is None:
        return NOTHING
    seconds = max(0.0, value.total_seconds())
    if seconds < MINUTE:
        return f"{seconds:.1f} s"
    if seconds < HOUR:
        return f"{int(seconds // MINUTE)} m {int(seconds % MINUTE):02} s"
    return (
        f"{int(seconds // HOUR)} h {int(seconds % HOUR // MINUTE):02} m" if seconds < DAY else f"{seconds / DAY:.1f} d"
    )


def since(moment: datetime | None) -> str:
    """Say how long ago a moment was."""
    return NOTHING if moment is None else f"{span(datetime.now(UTC) - moment)} ago"


def lane(priority: Priority) -> str:
    """Name a priority."""
    return priority.name.lower()
