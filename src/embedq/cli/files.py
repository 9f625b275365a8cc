"""Records from files: JSON lines or CSV, with their line numbers for error messages."""

import csv
import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

from embedq.errors import Invalid
from embedq.policy.texts import MAX_BATCH

CSV_SUFFIXES = {".csv": ",", ".tsv": "\t"}
MAX_CELL = 64 << 20
OWN_FIELDS = ("priority", "tenant")  # columns with these names are not attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Which columns mean what."""

    id_column: str | None = None
    text_column: str | None = None
    separator: str | None = None  # None: JSON lines


@dataclass(frozen=True, slots=True)
class Line:
    """A record and its line number."""

    number: int
    record: Mapping[str, Any]


def layout_of(path: str, *, id_column: str | None, text_column: str | None, form: str | None) -> Layout:
    """Determine the format by the option, or by the file's name."""
    suffix = Path(path).suffix.lower()
    separator = {"csv": ",", "tsv": "\t", "jsonl": None}[form] if form else CSV_SUFFIXES.get(suffix)
    return Layout(id_column=id_column, text_column=text_column, separator=separator)


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """Open a file, or stdin for `-`."""
    if path == "-":
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(path).open("rb"))
        except OSError as error:
            raise Invalid(f"{path} cannot be read: {error.strerror}") from error
        yield file


def lines(file: IO[bytes], layout: Layout) -> Iterator[Line]:
    """Read the records of a file, one at a time; raise Invalid at the first line that cannot be read."""
    yield from _csv(file, layout) if layout.separator else _json_lines(file, layout)


def batches(found: Iterator[Line], size: int = MAX_BATCH) -> Iterator[list[Line]]:
    """Group records into batches."""
    while batch := list(islice(found, size)):
        yield batch


def at_lines(problem: Invalid, batch: list[Line]) -> Invalid:
    """Rewrite the problems of a batch by their lines in the file."""
    if not problem.problems:
        first, last = batch[0].number, batch[-1].number
        return Invalid(f"lines {first} to {last}: {problem}")
    named = [f"line {batch[position].number}: {what}" for position, what in sorted(problem.problems.items())]
    more = f"\n… and {len(named) - 10} more" if len(named) > 10 else ""  # noqa: PLR2004 a screenful
    return Invalid("\n".join(named[:10]) + more)


def _json_lines(file: IO[bytes], layout: Layout) -> Iterator[Line]:
    for number, raw in enumerate(file, start=1):
        if not raw.strip():
            continue
        try:
            item = json.loads(raw.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            raise Invalid(f"line {number}: no valid UTF-8 (byte {error.start})") from error
        except (ValueError, RecursionError) as error:
            raise Invalid(f"line {number}: no valid JSON ({error})") from error
        if not isinstance(item, dict):
            raise Invalid(f"line {number}: an object is needed, not {type(item).__name__}")
        by_column = layout.id_column or layout.text_column
        yield Line(number, _by_column(item, layout, number) if by_column else item)


def _csv(file: IO[bytes], layout: Layout) -> Iterator[Line]:
    csv.field_size_limit(MAX_CELL)
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    reader = csv.DictReader(text, delimiter=layout.separator or ",", strict=True)
    try:
        _check_header(reader.fieldnames or (), layout)
        for row in reader:
            if None in row or None in row.values():
                raise Invalid(f"line {reader.line_num}: it has not as many cells as the header")
            yield Line(reader.line_num, _by_column(row, layout, reader.line_num))
    except (csv.Error, UnicodeDecodeError) as error:
        raise Invalid(f"line {reader.line_num + 1}: no valid CSV ({error})") from error
    finally:
        text.detach()


def _check_header(names: Any, layout: Layout) -> None:  # noqa: ANN401 csv does not say which sequence
    wanted = [layout.id_column or "id", *([layout.text_column] if layout.text_column else [])]
    for name in wanted:
        if name not in names:
            raise Invalid(f"line 1: there is no column {name!r} among {', '.join(names) or 'no columns at all'}")


def _by_column(row: Mapping[str, Any], layout: Layout, number: int) -> dict[str, Any]:
    """Make a record from a row: the id, the text, and the rest as attributes."""
    id_column, text_column = layout.id_column or "id", layout.text_column or "text"
    if id_column not in row:
        raise Invalid(f"line {number}: there is no {id_column!r}")
    record: dict[str, Any] = {"id": _id(row[id_column])}
    if row.get(text_column) is not None:
        record["text"] = row[text_column]
    record |= {name: row[name] for name in OWN_FIELDS if row.get(name)}
    taken = {id_column, text_column, *OWN_FIELDS}
    if rest := {name: value for name, value in row.items() if name not in taken}:
        record["attributes"] = rest
    return record


def _id(value: object) -> object:
    """Accept a number as an id in a file; records have string ids only."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
