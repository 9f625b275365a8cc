"""Rows of CSV files, with the numbers of their lines and their raw text."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

from embedq.cli.columns import Guess, Kind, value_of
from embedq.cli.layout import Layout
from embedq.errors import Invalid
from embedq.model import Priority

MAX_CELL = 64 << 20
PRIORITIES = {str(lane.value) for lane in Priority}
MAX_RAW = 1 << 20  # characters of a bad row that are shown


@dataclass(frozen=True, slots=True)
class Row:
    """A row as it stands in the file."""

    number: int  # of its first line
    raw: bytes
    cells: Sequence[str]
    problem: str | None = None  # why it cannot be read


def rows(file: IO[bytes], layout: Layout) -> Iterator[Row]:
    """Read the rows of a file, the header among them; one that cannot be read does not end it."""
    csv.field_size_limit(MAX_CELL)
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    raw: list[str] = []
    reader = csv.reader(_keeping(text, raw), delimiter=layout.separator or ",", strict=True)
    try:
        while (row := _next(reader, raw)) is not None:
            if row.cells or row.problem:
                yield row
    finally:
        if not file.closed:  # a caller that gives up at the header closes it first
            text.detach()


def names_of(found: Iterator[Row], layout: Layout) -> Sequence[str]:
    """Read the header, which must name the columns that are asked for, each once."""
    header = next(found, None)
    names = header.cells if header and not header.problem else ()
    for name in (layout.id, layout.text_column, *layout.types):
        if name is not None and name not in names:
            said = ", ".join(names) or "no columns at all"
            raise Invalid(f"line 1: there is no column {name!r} among {said}")
    if twice := [name for name in names if names.count(name) > 1]:
        raise Invalid(f"line 1: two columns are named {twice[0]!r}: name each column once")
    return names


def typed(names: Sequence[str], row: Row, layout: Layout) -> dict[str, Any]:
    """Read the cells of a row by their columns' types."""
    if row.problem:
        raise Invalid(row.problem)
    if len(row.cells) != len(names):
        raise Invalid(f"it has {len(row.cells)} cells, the header has {len(names)}")
    return {name: _value(name, cell, layout) for name, cell in zip(names, row.cells, strict=True)}


def with_types(file: IO[bytes], layout: Layout) -> Layout:
    """Read the whole file to learn the types of the columns that none was named for."""
    found = rows(file, layout)
    names = names_of(found, layout)
    guesses = {name: Guess() for name in names if name not in layout.untyped and name not in layout.types}
    for row in found if guesses else ():
        if not row.problem and len(row.cells) == len(names):
            for name, cell in zip(names, row.cells, strict=True):
                if name in guesses:
                    guesses[name].add(cell)
    return replace(layout, types={**{name: guess.kind for name, guess in guesses.items()}, **layout.types})


def _keeping(text: io.TextIOWrapper, raw: list[str]) -> Iterator[str]:
    """Pass lines on, and keep them while their row is read."""
    size = 0
    for line in text:
        size = len(line) + (size if raw else 0)
        if size <= MAX_RAW:
            raw.append(line)
        yield line


def _next(reader: Any, raw: list[str]) -> Row | None:  # noqa: ANN401 csv's own type
    raw.clear()
    number, cells, problem = reader.line_num + 1, [], None
    try:
        cells = next(reader)
        "".join(cells).encode()
    except StopIteration:
        return None
    except csv.Error as error:
        problem = f"no valid CSV ({error})"
    except UnicodeEncodeError:  # what could not be decoded
        problem = "no valid UTF-8"
    return Row(number, "".join(raw).encode(errors="surrogateescape"), cells, problem)


def _value(name: str, cell: str, layout: Layout) -> object:
    if name == "priority" and cell in PRIORITIES:
        return int(cell)
    if name in layout.untyped:
        return cell
    try:
        return value_of(cell, layout.types.get(name, Kind.TEXT))
    except Invalid as problem:
        raise Invalid(f"column {name!r}: {problem}") from problem
