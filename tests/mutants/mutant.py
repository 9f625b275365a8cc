"""A mutant: one rule of the source broken on purpose, and the tests that must notice."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LISTS = Path(__file__).parent
SOURCE = Path("src") / "embedq"


class DoesNotApply(Exception):
    """The source is not what the list says any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """What is broken, by which change of which lines, and who must fail then: each of its tests."""

    name: str  # what the mutant does wrong, in a few words
    file: str  # below src/embedq
    was: str
    becomes: str
    tests: tuple[str, ...]

    def apply(self, checkout: Path) -> None:
        """Change the source of a checkout. The text that goes must stand there once."""
        path = checkout / SOURCE / self.file
        source = path.read_text(encoding="utf-8")
        if source.count(self.was) != 1:
            raise DoesNotApply(f"{self.name}: {self.file} holds {source.count(self.was)} times {self.was!r}")
        path.write_text(source.replace(self.was, self.becomes), encoding="utf-8")


def read(folder: Path = LISTS) -> Sequence[Mutant]:
    """Read all lists of a folder."""
    rows = [row for path in sorted(folder.glob("*.toml")) for row in tomllib.loads(path.read_text())["mutant"]]
    return [Mutant(**{**row, "tests": tuple(row["tests"])}) for row in rows]
