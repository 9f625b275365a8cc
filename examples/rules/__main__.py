"""Prepares the tables and loads rules, or shows the dashboards: `python -m examples.rules [FILE | dashboards]`."""

import asyncio
import os
import sys
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

import embedq

from . import table


async def load(url: str, path: Path) -> str:
    """Make what is not there yet, and load a file of rules."""
    async with embedq.open(url):  # it makes its own tables; the views look at them
        await table.prepare(url)
    written = await table.load(url, table.read(path))
    return f"{written} rules of {path.name} were new or other than before"


async def show(url: str) -> None:
    """Print the dashboards."""
    screen = Console()
    for name, rows in (await table.look(url)).items():
        if not rows:
            screen.print(f"{name}: nothing")
            continue
        shown = Table(*rows[0].keys(), title=name, title_justify="left")
        for row in rows:
            shown.add_row(*map(_cell, row.values()))
        screen.print(shown)


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return "" if value is None else str(value)


def main() -> None:
    """Read the command line."""
    url = os.environ.get("DATABASE_URL") or os.environ.get("EMBEDQ_URL") or ""
    if not url.startswith(("postgresql://", "postgres://")):
        sys.exit("Set EMBEDQ_URL (or DATABASE_URL) to postgresql://user:password@host/database.")
    match sys.argv[1:]:
        case ["dashboards"]:
            asyncio.run(show(url))
        case []:
            print(asyncio.run(load(url, table.RULES)))  # noqa: T201 says what it did
        case [path]:
            print(asyncio.run(load(url, Path(path))))  # noqa: T201 says what it did
        case _:
            sys.exit("Usage: python -m examples.rules [FILE | dashboards]")


if __name__ == "__main__":
    main()
