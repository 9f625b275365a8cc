"""How the dashboards look on a terminal: nothing in them is cut, since ids are there to be copied."""

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table

ENDLESS = 100_000  # cells: a pipe has no width


def show(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print the dashboards."""
    on_screen = sys.stdout.isatty() or os.environ.get("COLUMNS")
    screen = Console(width=None if on_screen else ENDLESS, markup=False, emoji=False, highlight=False)
    for name, rows in found.items():
        if rows:
            _show(screen, name, rows)
        else:
            screen.print(f"{name}: nothing")


def _show(screen: Console, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table, or, where the screen is too narrow for it, the fields of each row one below the other."""
    shown = Table(title=name, title_justify="left")
    for column in rows[0]:
        shown.add_column(column, no_wrap=True)
    for row in rows:
        shown.add_row(*map(_cell, row.values()))
    if Console(width=ENDLESS, markup=False, emoji=False).measure(shown).maximum <= screen.width:
        screen.print(shown)
        return
    widest = max(map(len, rows[0]))
    for row in rows:
        screen.print(f"\n{name}")
        for column, value in row.items():
            screen.print(f"  {column:<{widest}}  {_cell(value)}", soft_wrap=True)


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return "" if value is None else str(value)
