"""Reads filters: the one grammar of Python, HTTP and the command line."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, assert_never

from embedq.conditions import AllOf, AnyOf, Exists, Filter, Not, OneOf, Operand, Order, Path, Scalar, Within
from embedq.errors import Invalid
from embedq.policy.instants import instant

MAX_DEPTH = 8  # of filters within filters
MAX_CONDITIONS = 64
MAX_VALUES = 1000  # of one condition
MAX_BYTES = 256 * 1024  # of all names and texts
MAX_STEPS = 8  # of a path
MAX_NUMBER = 2**63
NAME = re.compile(r"[\w .:-]+")
DOT = re.compile(r"(?<!\\)\.")  # one that is not escaped
GROUPS = ("$and", "$or", "$not")
ORDERS = frozenset(Order)
OPERATORS = ("eq", "ne", "in", "not_in", *Order, "exists")


def read_filter(value: Mapping[str, Any] | None) -> Filter | None:
    """Parse a filter, or refuse it and name the place; None: it allows every record."""
    if value is None or value == {}:
        return None
    return _Reading().filter(value, "filter", 1)


def read_path(name: object, place: str) -> Path:
    r"""Parse the path to an attribute: `author.name`; `a\.b` is one name with a dot."""
    if not isinstance(name, str):
        raise Invalid(f"{place}: an attribute's name must be a string, not {type(name).__name__}")
    path = tuple(step.replace("\\.", ".") for step in DOT.split(name))
    if len(path) > MAX_STEPS:
        raise Invalid(f"{place}: {name[:64]!r} descends {len(path)} names, at most {MAX_STEPS}")
    if not all(path):
        raise Invalid(f"{place}: the attribute name {name[:64]!r} is empty, or has nothing on one side of a dot")
    if not all(NAME.fullmatch(step) for step in path):
        raise Invalid(f"{place}: the attribute name {name[:64]!r} has characters that cannot be filtered by")
    return path


def fits(number: float) -> bool:
    """Say whether every database can compare this number; NaN and infinity never do."""
    return -MAX_NUMBER <= number < MAX_NUMBER


def paths(wanted: Filter | None) -> Iterator[Path]:
    """List the attributes that a filter looks at."""
    match wanted:
        case None:
            return
        case OneOf() | Within() | Exists():
            yield wanted.path
        case Not():
            yield from paths(wanted.part)
        case AllOf() | AnyOf():
            for part in wanted.parts:
                yield from paths(part)
        case _:
            assert_never(wanted)


def check_filterable(wanted: Filter | None, known: Sequence[str] | None, collection: str) -> None:
    """Refuse a filter by what no record of a collection has; None: its records may have any attributes."""
    unknown = [] if known is None else [name for name, *_ in paths(wanted) if name not in known]
    if unknown:
        has = f"its attributes are {', '.join(known)}" if known else "its table was attached without attributes"
        raise Invalid(f"filter: {collection!r} cannot be filtered by {unknown[0]!r}: {has}")


class _Reading:
    """A filter that is being read, and how much of it there was so far."""

    def __init__(self) -> None:
        self._conditions = 0
        self._bytes = 0

    def filter(self, value: object, place: str, depth: int) -> Filter:
        """Read an object: all of it must hold."""
        if not isinstance(value, Mapping):
            raise Invalid(f"{place} must be an object of attribute: value, not {type(value).__name__}")
        if not value:
            raise Invalid(f"{place} is empty: name an attribute and what it must be")
        if depth > MAX_DEPTH:
            raise Invalid(f"filter: nested deeper than {MAX_DEPTH}")
        parts = [part for name, wanted in value.items() for part in self._parts(name, wanted, place, depth)]
        return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _parts(self, name: object, wanted: object, place: str, depth: int) -> list[Filter]:
        here = f"{place}{': ' if place == 'filter' else '.'}{str(name)[:64]}"
        match name:
            case "$not":
                return [Not(self.filter(wanted, here, depth + 1))]
            case "$and":
                return [AllOf(self._group(wanted, here, depth))]
            case "$or":
                return [AnyOf(self._group(wanted, here, depth))]
            case str() if name.startswith("$"):
                raise Invalid(f"{here}: write {', '.join(GROUPS)}, or an attribute's name")
            case _:
                path = read_path(name, place)
                self._measure(str(name), here)
                return self._conditions_on(path, wanted, here)

    def _group(self, wanted: object, here: str, depth: int) -> tuple[Filter, ...]:
        if not isinstance(wanted, list | tuple) or not wanted:
            raise Invalid(f"{here} must be a list of filters, at least one")
        return tuple(self.filter(part, f"{here}[{at}]", depth + 1) for at, part in enumerate(wanted))

    def _conditions_on(self, path: Path, wanted: object, here: str) -> list[Filter]:
        """Read what is asked of one attribute: a value, a list of values, or operators."""
        if not isinstance(wanted, Mapping):
            return [self._one_of(path, wanted if isinstance(wanted, list | tuple) else [wanted], here)]
        if not wanted:
            raise Invalid(f"{here} is an empty object: write {', '.join(OPERATORS)}, or a value")
        for name in wanted:
            if name not in OPERATORS:
                raise Invalid(f"{here}: there is no operator {str(name)[:64]!r}: write {', '.join(OPERATORS)}")
        found = [
            self._operator(path, name, value, f"{here}.{name}") for name, value in wanted.items() if name not in ORDERS
        ]
        bounds = {Order(name): value for name, value in wanted.items() if name in ORDERS}
        return [*found, self._within(path, bounds, here)] if bounds else found

    def _operator(self, path: Path, name: str, value: object, here: str) -> Filter:
        match name:
            case "eq":
                return self._one_of(path, [value], here)
            case "in":
                return self._one_of(path, _listed(value, here), here)
            case "ne":
                return Not(self._one_of(path, [value], here))
            case "not_in":
                return Not(self._one_of(path, _listed(value, here), here))
        if not isinstance(value, bool):
            raise Invalid(f"{here}: write true or false")
        self._count()
        return Exists(path) if value else Not(Exists(path))

    def _one_of(self, path: Path, values: Sequence[object], here: str) -> Filter:
        """Read values that an attribute may equal; a date of Python's is a moment, however a record writes it."""
        if len(values) > MAX_VALUES:
            raise Invalid(f"{here}: {len(values)} values, at most {MAX_VALUES}")
        plain = tuple(self._scalar(value, here) for value in values if not isinstance(value, date))
        moments = [
            self._within(path, {Order.GTE: value, Order.LTE: value}, here)
            for value in values
            if isinstance(value, date)
        ]
        if not moments:
            self._count()
            return OneOf(path, plain)
        return AnyOf((*moments, OneOf(path, plain))) if plain else AnyOf(tuple(moments))

    def _within(self, path: Path, bounds: Mapping[Order, object], here: str) -> Filter:
        self._count()
        read = tuple((order, self._operand(value, f"{here}.{order}")) for order, value in bounds.items())
        if len(kinds := {_kind(value) for _, value in read}) > 1:
            raise Invalid(f"{here}: compare with one kind of value, not with {' and '.join(sorted(kinds))}")
        return Within(path, read)

    def _operand(self, value: object, here: str) -> Operand:
        try:
            moment = instant(value)
        except OverflowError:
            raise Invalid(f"{here}: this moment is none of the years 1 to 9999 in UTC") from None
        if moment is not None:
            return moment
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise Invalid(f"{here}: write a number, a text or a date")
        self._check(value, here)
        return value

    def _scalar(self, value: object, here: str) -> Scalar:
        if value is not None and not isinstance(value, str | int | float):
            raise Invalid(f"{here}: write a string, a number, true, false or null, or a list of these")
        if not isinstance(value, bool | None):
            self._check(value, here)
        return value

    def _check(self, value: str | float, here: str) -> None:
        if isinstance(value, str):
            self._measure(value, here)
        elif not fits(value):
            raise Invalid(f"{here}: numbers must fit into 64 bits")

    def _measure(self, text: str, here: str) -> None:
        if "\0" in text:
            raise Invalid(f"{here}: no text holds NUL characters")
        try:
            self._bytes += len(text.encode())
        except UnicodeEncodeError:
            raise Invalid(f"{here}: no valid Unicode (a lone surrogate)") from None
        if self._bytes > MAX_BYTES:
            raise Invalid(f"filter: more than {MAX_BYTES} bytes of names and texts")

    def _count(self) -> None:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise Invalid(f"filter: more than {MAX_CONDITIONS} conditions")


def _listed(value: object, here: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise Invalid(f"{here} must be a list of values")
    return value


def _kind(value: Operand) -> str:
    match value:
        case datetime():
            return "dates"
        case str():
            return "texts"
        case _:
            return "numbers"


def read_json(written: str) -> dict[str, Any]:
    """Read JSON; a name that stands twice in an object is refused, since only one of the two would count."""
    found: dict[str, Any] = json.loads(written, object_pairs_hook=_once)  # what else it may be, `read_filter` refuses
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        name = next(name for number, (name, _) in enumerate(pairs) if name in dict(pairs[:number]))
        raise Invalid(f"filter: {name!r} stands twice in one object: write both conditions into one, or use $and")
    return found
