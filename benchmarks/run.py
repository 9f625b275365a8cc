"""Measure every line of the speed contract: `python benchmarks/run.py [--quick] [--only NAME] [--peers]`.

Each figure stands beside a reference that was measured in the same run, in turns with it. The figures are printed and
written to `results.json`: name, value, unit, reference and ratio, with the bound and whether it was kept.
"""

import argparse
import asyncio
import importlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

import machine
from embedq.cli.running import SWITCH_SECONDS
from figure import Figure, Scale
from place import HOME

RESULTS = HOME / "results.json"
THEMES: Mapping[str, str] = {
    "queue_alone": "lease and complete without vectors, beside a bare loop",
    "whole_way": "the whole way with the fake embedder, beside bare writes and beside huey",
    "local_model": "the whole way with the local model, beside the embedder alone",
    "posting": "POST of one record while workers embed at full load",
    "bulk_put": "bulk put with the word index, beside bare set statements",
    "wake_up": "put to lease on an idle queue, and what idling costs",
    "backlog": "lease beside a million finished and a million waiting jobs",
    "search_lag": "commit to found by search in another process",
    "memory": "a worker at rest",
    "postgres.queue_alone": "PostgreSQL: lease and complete without vectors, beside bare asyncpg",
    "postgres.whole_way": "PostgreSQL: the whole way with vectors, beside bare asyncpg",
    "postgres.bulk_put": "PostgreSQL: bulk put of new records, beside a raw COPY",
    "postgres.snapshot": "PostgreSQL: leases while a snapshot is held open elsewhere",
    "postgres.writers": "PostgreSQL: writers of single records, with and without wake-up",
    "postgres.wake_up": "PostgreSQL: commit to lease on an idle queue",
    "postgres.attached": "PostgreSQL: the application's INSERT into an attached table",
    "postgres.size": "PostgreSQL: what a record costs on disk, and a process in connections",
}
PEERS: Mapping[str, str] = {
    "peers.beside": "our queue beside pgqueuer, graphile-worker, pg-boss and procrastinate",
    "peers.pgai": "rows of an attached table beside pgai's vectorizer",
}
ALL = {**THEMES, **PEERS}
MARKS = {True: "[green]yes[/green]", False: "[red]no[/red]", None: ""}

console = Console(width=None if sys.stdout.isatty() else 150)


def main() -> int:
    """Run what was asked for; 1 if a theme could not be measured."""
    asked = _arguments()
    if asked.list:
        for name, purpose in ALL.items():
            console.print(f"{name:<20} {purpose}", highlight=False)
        return 0
    sys.setswitchinterval(SWITCH_SECONDS)  # as `embedq up`, `serve` and `work` do
    names = asked.only or list(PEERS if asked.peers else THEMES)
    console.print(f"[dim]{machine.described()}[/dim]", highlight=False)
    measured = {name: _measure(name, Scale(quick=asked.quick)) for name in names}
    figures = {name: found for name, found in measured.items() if found is not None}
    _write(figures, quick=asked.quick)
    console.print(_table(figures))
    return 0 if len(figures) == len(names) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=ALL, metavar="NAME", help="measure this theme; repeatable")
    parser.add_argument("--quick", action="store_true", help="smaller sizes and fewer rounds")
    parser.add_argument("--peers", action="store_true", help="measure beside other queues, once they are installed")
    parser.add_argument("--list", action="store_true", help="name the themes and leave")
    return parser.parse_args()


def _measure(name: str, scale: Scale) -> list[Figure] | None:
    """Measure one theme. One that fails is told of and does not stop the others."""
    share, started = machine.busy_share(), time.monotonic()
    if share > machine.CALM_SHARE:
        console.print(
            f"[yellow]{share:.0%} of the machine is in use by others: {name} will look worse than it is[/yellow]"
        )
    try:
        with console.status(f"{name}: {ALL[name]}"):
            figures: list[Figure] = asyncio.run(importlib.import_module(name).measure(scale))
    except Exception:  # noqa: BLE001 whatever one theme meets, the others are still worth measuring
        console.print_exception()
        return None
    console.print(f"[dim]{name}: {time.monotonic() - started:.0f} s[/dim]", highlight=False)
    return figures


def _write(figures: Mapping[str, Sequence[Figure]], *, quick: bool) -> None:
    """Keep the lines of themes that were not measured this time."""
    before: list[dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    lines = {name: [fact for fact in before if fact["theme"] == name] for name in ALL}
    lines |= {
        name: [figure.facts() | {"theme": name, "quick": quick} for figure in found] for name, found in figures.items()
    }
    flat = [fact for name in ALL for fact in lines[name]]
    RESULTS.write_text(json.dumps(flat, indent=1, ensure_ascii=False) + "\n")


def _table(figures: Mapping[str, Sequence[Figure]]) -> Table:
    table = Table("figure", "value", "unit", "reference", "ratio", "bound", "kept")
    for column in table.columns[1:]:
        column.no_wrap = True
    for number in (1, 3, 4):
        table.columns[number].justify = "right"
    for found in figures.values():
        for figure in found:
            table.add_row(
                figure.name if figure.beside is None else f"{figure.name} [dim]({figure.beside})[/dim]",
                _short(figure.value),
                figure.unit,
                _short(figure.reference),
                _short(figure.ratio),
                figure.bound or "",
                MARKS[figure.ok],
            )
    return table


def _short(figure: float | None) -> str:
    if figure is None:
        return ""
    return f"{figure:,.0f}" if figure >= 1000 else f"{figure:.3g}"


if __name__ == "__main__":
    sys.exit(main())
