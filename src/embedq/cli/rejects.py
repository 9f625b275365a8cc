"""Lines of a file that are left out, kept in a file of their own."""

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TextIO

from embedq.cli.files import BadLine, Line
from embedq.errors import Invalid

OWNER_ONLY = 0o600  # it holds texts, like the database


class Rejects(AbstractContextManager["Rejects"]):
    """Keeps bad lines with their numbers and reasons; without a path the first bad line raises Invalid."""

    def __init__(self, path: str | None = None) -> None:
        """Write them to this file, which is made anew with the first of them."""
        self._path = path
        self._file: TextIO | None = None
        self.count = 0
        if path and Path(path).is_file():  # of an earlier run
            Path(path).unlink()

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        if self._file:
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
        if self._file is None:
            self._file = _private(self._path)
        raw = bad.raw.decode("utf-8-sig", errors="surrogateescape").rstrip("\r\n")
        self._file.write(json.dumps({"line": bad.number, "reason": bad.reason, "raw": raw}) + "\n")
        self.count += 1


def _private(path: str) -> TextIO:
    try:
        return open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, OWNER_ONLY))
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}") from error
