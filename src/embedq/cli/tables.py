"""Tables that fit the screen: a narrow one loses columns before it loses sense."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from embedq.cli.output import DASH, literal

Cell = str | Text
BETWEEN = 2  # what a column costs beside its own width
ALWAYS = 100
WRAPPED = 3  # a sentence gets so many times the room of a name


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: what it is called, and what becomes of it where the screen is narrow."""

    name: str
    right: bool = False
    least: int | None = None  # it may be cut down to so many cells; None: it is shown whole
    wraps: bool = False  # cut down, it goes on in the next line
    worth: int = ALWAYS  # those that are worth least are left out first
    if_any: bool = False  # left out where it would hold nothing


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, width: int, last_is_sum: bool = False) -> Table:
    """Lay facts out in columns on a screen of this width. A plain string is shown as it is."""
    cells = [[_text(cell) for cell in row] for row in rows]
    natural = [max(cell_len(column.name), *(_width(row[n]) for row in cells)) for n, column in enumerate(columns)]
    shown = _shown(columns, cells, natural, width)
    widths = _widths([columns[n] for n in shown], [natural[n] for n in shown], width)
    made = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0))
    for n, size in zip(shown, widths, strict=True):
        column = columns[n]
        made.add_column(
            Text(column.name),
            justify="right" if column.right else "left",
            overflow="fold" if column.wraps else "ellipsis",
            no_wrap=not column.wraps,
            width=size,
        )
    for position, row in enumerate(cells):
        if last_is_sum and position == len(cells) - 1:
            made.add_section()
        made.add_row(*(row[n] for n in shown))
    return made


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(literal(cell))


def _width(cell: Text) -> int:
    return max((cell_len(line) for line in cell.plain.splitlines()), default=0)


def _shown(columns: Sequence[Column], cells: Sequence[Sequence[Text]], natural: Sequence[int], width: int) -> list[int]:
    """Choose the columns that have room."""
    shown = [n for n, column in enumerate(columns) if not column.if_any or any(row[n].plain != DASH for row in cells)]
    while sum(_least(columns[n], natural[n]) + BETWEEN for n in shown) > width:
        cheapest = min(shown, key=lambda n: columns[n].worth)
        if columns[cheapest].worth == ALWAYS:
            break
        shown.remove(cheapest)
    return shown


def _least(column: Column, natural: int) -> int:
    return natural if column.least is None else min(natural, column.least)


def _widths(columns: Sequence[Column], natural: Sequence[int], width: int) -> list[int]:
    """Share what is left among the columns that may be cut; those that need less leave it to the others."""
    widths, weights = list(natural), [WRAPPED if column.wraps else 1 for column in columns]
    left = width - sum(size + BETWEEN for column, size in zip(columns, natural, strict=True) if column.least is None)
    cut = [n for n, column in enumerate(columns) if column.least is not None]
    waiting = sum(weights[n] for n in cut)
    for n in sorted(cut, key=lambda n: natural[n] / weights[n]):
        widths[n] = max(1, min(natural[n], left * weights[n] // waiting - BETWEEN))
        left, waiting = left - widths[n] - BETWEEN, waiting - weights[n]
    return widths
