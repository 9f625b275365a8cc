"""Lines of a file that are left out, kept in a file of their own."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TextIO

from embedq.cli.files import BadLine, Line
from embedq.cli.outfiles import created, refuse_database
from embedq.errors import Invalid


class Rejects(AbstractContextManager["Rejects"]):
    """Keeps bad lines with their numbers and reasons; without a path the first bad line raises Invalid."""

    def __init__(self, path: str | None = None) -> None:
        """Write them to this file, which is made anew with the first of them."""
        self._path = path
        self._file: TextIO | None = None
        self.count = 0
        if path and Path(path).is_file():  # of an earlier run
            refuse_database(path)
            Path(path).unlink()

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        if self._file:
            with _writing(self._path):
                self._file.close()

    @property
    def skipping(self) -> bool:
        """Say whether bad lines are left out."""
        return self._path is not None

    @property
    def written(self) -> str | None:
        """The file, if there is one."""
        return self._path if self.count else None

    def sift(self, batch: Sequence[Line | BadLine]) -> list[Line]:
        """Take the bad lines out of a batch."""
        for line in batch:
            if isinstance(line, BadLine):
                self._add(line)
        return [line for line in batch if isinstance(line, Line)]

    def refuse(self, batch: Sequence[Line], problems: Mapping[int, str]) -> list[Line]:
        """Take the lines out of a batch that were refused, by their positions."""
        for position, what in sorted(problems.items()):
            line = batch[position]
            self._add(BadLine(line.number, what, line.raw))
        return [line for position, line in enumerate(batch) if position not in problems]

    def _add(self, bad: BadLine) -> None:
        if self._path is None:
            raise Invalid(f"line {bad.number}: {bad.reason}")
        raw = bad.raw.decode("utf-8-sig", errors="surrogateescape").rstrip("\r\n")
        with _writing(self._path):
            self._file = self._file or created(self._path)
            self._file.write(json.dumps({"line": bad.number, "reason": bad.reason, "raw": raw}) + "\n")
        self.count += 1


@contextmanager
def _writing(path: str | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}") from error
