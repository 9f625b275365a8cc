"""The types of CSV columns, decided for a whole column so that all its values compare alike.

A column is read as numbers or booleans only if no two different cells would become the same value: `007`, `1.10` beside
`1.1`, and numbers of more digits than every JSON reader keeps stay text. An empty cell is null.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from embedq.errors import Invalid
from embedq.policy.filters import fits

NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.([0-9]+))?")
ANY_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
LONGEST = 1000  # characters of a whole number that Python converts whatever its settings
EXACT_DIGITS = 15  # of a decimal number in 64 bits
SPELLINGS = {"true", "True", "TRUE", "false", "False", "FALSE"}
TRUE, FALSE = {"true", "yes", "y", "t", "1"}, {"false", "no", "n", "f", "0"}  # where a column is said to be boolean


class Kind(StrEnum):
    """What the cells of a column hold."""

    TEXT = "text"
    NUMBER = "number"
    BOOLEAN = "boolean"


@dataclass(slots=True)
class Guess:
    """What a column can be, after the cells that were seen."""

    empty: bool = True
    numbers: bool = True
    booleans: bool = True
    decimals: int | None = None  # of the first number
    alike: bool = True  # all numbers have as many decimals
    padded: bool = False  # some number ends in a zero after the point

    def add(self, cell: str) -> None:
        """Look at one more cell."""
        if not cell:
            return
        self.empty = False
        self.booleans = self.booleans and cell in SPELLINGS
        self.numbers = self.numbers and self._is_number(cell)

    @property
    def kind(self) -> Kind:
        """The type that loses nothing."""
        if self.empty:
            return Kind.TEXT
        if self.booleans:
            return Kind.BOOLEAN
        return Kind.NUMBER if self.numbers and (self.alike or not self.padded) else Kind.TEXT

    def _is_number(self, cell: str) -> bool:
        found = NUMBER.fullmatch(cell)
        digits = cell.lstrip("-0.").replace(".", "")
        if found is None or len(digits) > EXACT_DIGITS or (cell[0] == "-" and not digits.strip("0")):  # no minus zero
            return False
        decimals = len(found[1] or "")
        self.decimals = decimals if self.decimals is None else self.decimals
        self.alike = self.alike and decimals == self.decimals
        self.padded = self.padded or (decimals > 0 and cell.endswith("0"))
        return True


def value_of(cell: str, kind: Kind) -> str | float | bool | None:
    """Read a cell as its column's type."""
    match kind:
        case _ if not cell:
            return None
        case Kind.TEXT:
            return cell
        case Kind.BOOLEAN if cell.lower() in TRUE | FALSE:
            return cell.lower() in TRUE
        case Kind.NUMBER if ANY_NUMBER.fullmatch(cell) and fits(number := _number(cell)):
            return number
    raise Invalid(f"{cell[:40]!r} is no {kind.value}")


def _number(cell: str) -> float:
    return int(cell) if cell.lstrip("+-").isdigit() and len(cell) <= LONGEST else float(cell)
