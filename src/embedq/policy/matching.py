"""Says what a filter means: stores compile it into their own language, and a test compares the two."""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from operator import ge, gt, le, lt
from typing import Any, assert_never

from embedq.conditions import AllOf, AnyOf, Exists, Filter, Not, OneOf, Operand, Order, Path, Scalar, Within
from embedq.policy.instants import microseconds, since_epoch

COMPARE: Mapping[Order, Callable[[Any, Any], bool]] = {Order.GT: gt, Order.GTE: ge, Order.LT: lt, Order.LTE: le}


def matches(wanted: Filter, attributes: Mapping[str, Any]) -> bool:
    """Say whether a record with these attributes is allowed."""
    match wanted:
        case OneOf():
            return any(_equals(item, value) for item in _items(attributes, wanted.path) for value in wanted.values)
        case Within():
            return any(_is_within(item, wanted.bounds) for item in _items(attributes, wanted.path))
        case Exists():
            return any(True for _ in _reached(attributes, wanted.path))
        case Not():
            return not matches(wanted.part, attributes)
        case AllOf():
            return all(matches(part, attributes) for part in wanted.parts)
        case AnyOf():
            return any(matches(part, attributes) for part in wanted.parts)
        case _:
            assert_never(wanted)


def _reached(node: object, path: Path) -> Iterator[object]:
    """Descend; a list on the way stands for the objects in it."""
    if not path:
        yield node
        return
    for item in node if isinstance(node, list) else [node]:
        if isinstance(item, Mapping) and path[0] in item:
            yield from _reached(item[path[0]], path[1:])


def _items(attributes: Mapping[str, Any], path: Path) -> Iterator[object]:
    """List the values at a path; a list stands for its items, and an object or a list in it for nothing."""
    for value in _reached(attributes, path):
        yield from value if isinstance(value, list) else [value]


def _equals(item: object, value: Scalar) -> bool:
    """Compare within a kind: 1 is 1.0, but neither true nor "1"."""
    return _kind(item) is _kind(value) and item == value


def _is_within(item: object, bounds: tuple[tuple[Order, Operand], ...]) -> bool:
    return all(_compares(item, order, operand) for order, operand in bounds)


def _compares(item: object, order: Order, operand: Operand) -> bool:
    if isinstance(operand, datetime):
        since = microseconds(item) if isinstance(item, str) else None
        return since is not None and COMPARE[order](since, since_epoch(operand))
    return _kind(item) is _kind(operand) and COMPARE[order](item, operand)


def _kind(value: object) -> type:
    """Sort a JSON value into kinds that compare with each other."""
    return float if isinstance(value, int) and not isinstance(value, bool) else type(value)
