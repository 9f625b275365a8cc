"""Attributes and filters by chance, from few names and values, so that they often meet."""

from random import Random
from typing import Any

NAMES = ("a", "b", "c d")
PATHS = ("a", "b", "c d", "a.b", "b.a", "a.a", "a.b.a", "c d.b", "absent")
SCALARS: tuple[Any, ...] = (
    0, 1, -1, 1.0, 0.1, 1.5, 1e-7, 2**53 + 1, 1e22, True, False, None, "", "a", "A", "ä", "1", "true", "😀",
    "\uffee", "a'\"\\", "2026-01-31", "2026-01-31T00:00:00Z", "2026-01-31T14:00:00+14:00",
    "2026-01-30T20:00:00.5-04:00", "2026-02-30",
)  # fmt: skip
NUMBERS = (0, 1, -1, 0.1, 1.0, 1.5, 2**53, 2**53 + 1, 1e18)
TEXTS = ("", "a", "A", "ä", "1", "\uffee", "2026", "2026-02-30")
MOMENTS = ("2026-01-31", "2026-01-31T00:00:00Z", "2026-01-31T00:00:00.5", "2026-01-30T23:59:59+00:00")
ORDERS = ("gt", "gte", "lt", "lte")


def attributes(chance: Random) -> dict[str, Any]:
    """Draw the attributes of a record."""
    return {name: _value(chance, 3) for name in NAMES if chance.random() < 0.8}


def wanted(chance: Random, depth: int = 3) -> dict[str, Any]:
    """Draw a filter."""
    kind = chance.randrange(10 if depth else 7)
    match kind:
        case 7:
            return {"$not": wanted(chance, depth - 1)}
        case 8 | 9:
            parts = [wanted(chance, depth - 1) for _ in range(chance.randint(1, 3))]
            return {"$or" if kind == 8 else "$and": parts}
        case _:
            return {name: _condition(chance) for name in chance.sample(PATHS, chance.choice((1, 1, 2)))}


def _value(chance: Random, depth: int) -> Any:  # noqa: ANN401 any JSON
    match chance.randrange(8) if depth else 0:
        case 6:
            return [_value(chance, depth - 1) for _ in range(chance.randrange(4))]
        case 7:
            return {name: _value(chance, depth - 1) for name in NAMES if chance.random() < 0.5}
        case _:
            return chance.choice(SCALARS)


def _condition(chance: Random) -> Any:  # noqa: ANN401 any JSON
    some = chance.sample([value for value in SCALARS if value != 1e22], 3)
    match chance.randrange(9):
        case 0:
            return some[0]
        case 1:
            return some
        case 2:
            return {"ne": some[0]}
        case 3:
            return {"not_in": some, "exists": True}
        case 4:
            return {"exists": chance.random() < 0.5}
        case _:
            operands = chance.choice((NUMBERS, TEXTS, MOMENTS))
            orders = chance.sample(ORDERS, chance.choice((1, 2)))
            return {order: chance.choice(operands) for order in orders}
