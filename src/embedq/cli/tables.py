"""Tables that fit the screen: a narrow screen drops the least important columns."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from embedq.cli.output import DASH
from embedq.policy.printable import literal

Cell = str | Text
BETWEEN = 2  # padding per column
ALWAYS = 100
SIMPLE_HEAD = box.Box(str(box.SIMPLE_HEAD), ascii=True)  # its lines become dashes on a terminal that has ASCII only
KEY_LEAST = 12  # below this a wrapped id is unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its title, and how it shrinks on a narrow screen."""

    name: str
    right: bool = False
    key: bool = False  # an id, which people copy: never cut, but wrapped
    least: int | None = None  # the minimum width it may be cut to; None: never cut
    wraps: bool = False  # wrapped instead of cut
    worth: int = ALWAYS  # the lowest are left out first
    if_any: bool = False  # left out if all its cells are empty


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, width: int, last_is_sum: bool = False) -> Table:
    """Lay out rows in columns for a screen of this width. A plain string is shown as it is."""
    cells = [[_text(cell) for cell in row] for row in rows]
    natural = [max(cell_len(column.name), *(_width(row[n]) for row in cells)) for n, column in enumerate(columns)]
    shown = _shown(columns, cells, natural, width)
    widths = _widths([columns[n] for n in shown], [natural[n] for n in shown], width)
    made = Table(box=SIMPLE_HEAD, header_style="dim", pad_edge=False, padding=(0, 1, 0, 0))
    for n, size in zip(shown, widths, strict=True):
        column = columns[n]
        made.add_column(
            Text(column.name),
            justify="right" if column.right else "left",
            overflow="fold" if column.wraps or column.key else "ellipsis",
            no_wrap=not (column.wraps or column.key),
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
    """Choose the columns that fit."""
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
    """Distribute the width: ids first, then names, then sentences, which can be wrapped."""
    least = [_least(column, size) for column, size in zip(columns, natural, strict=True)]
    widths, room = list(least), width - BETWEEN * len(columns)
    keys = [n for n, column in enumerate(columns) if column.key]
    names = [n for n, column in enumerate(columns) if column.least is not None and not column.wraps]
    sentences = [n for n, column in enumerate(columns) if column.least is not None and column.wraps]
    for group in (keys, names, sentences):
        others = sum(widths) - sum(widths[n] for n in group)
        floor = [min(natural[n], KEY_LEAST) if columns[n].key else least[n] for n in group]
        shared = _shared([natural[n] for n in group], floor, room - others)
        for n, size in zip(group, shared, strict=True):
            widths[n] = size
    return widths


def _shared(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Give each its minimum if that fits, and distribute the rest evenly among those that want more."""
    widths = list(least) if sum(least) <= room else [1] * len(least)
    left, waiting = room - sum(widths), len(widths)
    for n in sorted(range(len(widths)), key=lambda n: natural[n] - widths[n]):
        more = max(0, min(natural[n] - widths[n], left // waiting))
        widths[n], left, waiting = widths[n] + more, left - more, waiting - 1
    return widths
