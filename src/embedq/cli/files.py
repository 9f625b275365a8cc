"""Records from files: JSON lines or CSV, with their line numbers for error messages."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

from embedq.cli.csvfiles import Row, names_of, rows, typed
from embedq.cli.layout import Layout, record_of
from embedq.errors import Invalid
from embedq.policy.texts import MAX_BATCH

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Line:
    """A record, its line number and the line itself."""

    number: int
    record: Mapping[str, Any]
    raw: bytes = b""


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that is no record, and why."""

    number: int
    reason: str
    raw: bytes


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


def entries(file: IO[bytes], layout: Layout) -> Iterator[Line | BadLine]:
    """Read a file line by line; a bad line does not end it, but a CSV header that does not fit raises Invalid."""
    yield from _csv(file, layout) if layout.separator else _json_lines(file, layout)


def lines(file: IO[bytes], layout: Layout) -> Iterator[Line]:
    """Read the records of a file, one at a time; raise Invalid at the first bad line."""
    for entry in entries(file, layout):
        if isinstance(entry, BadLine):
            raise Invalid(f"line {entry.number}: {entry.reason}")
        yield entry


def batches(found: Iterator[T], size: int = MAX_BATCH) -> Iterator[list[T]]:
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


def _json_lines(file: IO[bytes], layout: Layout) -> Iterator[Line | BadLine]:
    for number, raw in enumerate(file, start=1):
        if raw.strip():
            yield _entry(number, raw, partial(_from_json, raw, layout))


def _csv(file: IO[bytes], layout: Layout) -> Iterator[Line | BadLine]:
    found = rows(file, layout)
    names = names_of(found, layout)
    for row in found:
        yield _entry(row.number, row.raw, partial(_from_row, row, names, layout))


def _entry(number: int, raw: bytes, read: Callable[[], dict[str, Any]]) -> Line | BadLine:
    try:
        return Line(number, read(), raw)
    except Invalid as problem:
        return BadLine(number, str(problem), raw)


def _from_row(row: Row, names: Sequence[str], layout: Layout) -> dict[str, Any]:
    return record_of(typed(names, row, layout), layout)


def _from_json(raw: bytes, layout: Layout) -> dict[str, Any]:
    try:
        item = json.loads(raw.decode("utf-8-sig"))  # the first line may begin with a byte order mark
    except UnicodeDecodeError as error:
        raise Invalid(f"no valid UTF-8 (byte {error.start})") from error
    except (ValueError, RecursionError) as error:
        raise Invalid(f"no valid JSON ({error})") from error
    if not isinstance(item, dict):
        raise Invalid(f"an object is needed, not {type(item).__name__}")
    return record_of(item, layout)
