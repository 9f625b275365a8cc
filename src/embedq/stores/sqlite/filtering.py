"""Filters as conditions on a record `x`. What a filter means is said by `policy.matching`."""

import json
from datetime import datetime
from typing import Any, assert_never

from embedq.conditions import AllOf, AnyOf, Exists, Filter, Not, OneOf, Operand, Order, Path, Within
from embedq.policy.instants import days_around, since_epoch

INSTANT = "embedq_instant"  # a function that each connection of ours has: `policy.instants.microseconds`
SIGNS = {Order.GT: ">", Order.GTE: ">=", Order.LT: "<", Order.LTE: "<="}

# The objects at a name: one, or those of a list.
OBJECTS = """json_each(CASE json_type({object}, ?) WHEN 'array' THEN json_extract({object}, ?)
  WHEN 'object' THEN '[' || json_extract({object}, ?) || ']' END) o{step}"""
OBJECT = "CASE o{step}.type WHEN 'object' THEN o{step}.value END"

# The values at a name: one, or those of a list.
VALUES = "EXISTS (SELECT 1 FROM {objects}json_each({object}, ?) v WHERE json_type({object}, ?) <> 'object' AND {fits})"

# A number is a number, true is not 1. The wanted values are unnested once, however many there are.
KIND = "CASE {0}.type WHEN 'integer' THEN 'real' ELSE {0}.type END"
EQUAL = f"""({KIND.format("v")}, coalesce(v.atom, 0)) IN (
  SELECT {KIND.format("w")}, coalesce(w.atom, 0) FROM json_each(?) w)"""

Condition = tuple[str, list[Any]]  # SQL, and its parameters in order


def condition(wanted: Filter) -> Condition:
    """Write a filter. Names and values are passed as parameters only."""
    match wanted:
        case OneOf():
            return _having(wanted.path, EQUAL, [json.dumps(wanted.values)])
        case Within():
            return _having(wanted.path, *_within(wanted))
        case Exists():
            return _existing(wanted.path)
        case Not():
            written, values = condition(wanted.part)
            return f"NOT {written}", values
        case AllOf():
            return _joined(wanted.parts, " AND ")
        case AnyOf():
            return _joined(wanted.parts, " OR ")
        case _:
            assert_never(wanted)


def _joined(parts: tuple[Filter, ...], word: str) -> Condition:
    written = [condition(part) for part in parts]
    return f"({word.join(sql for sql, _ in written)})", [value for _, values in written for value in values]


def _having(path: Path, fits: str, values: list[Any]) -> Condition:
    """Say that one of the values at a path fits."""
    objects, found, steps = _descent(path)
    name = _json_path(path[-1])
    return VALUES.format(objects=objects, object=found, fits=fits), [*steps, name, name, *values]


def _existing(path: Path) -> Condition:
    objects, found, steps = _descent(path)
    is_there = f"json_type({found}, ?) IS NOT NULL"
    if objects:
        is_there = f"EXISTS (SELECT 1 FROM {objects.removesuffix(', ')} WHERE {is_there})"
    return is_there, [*steps, _json_path(path[-1])]


def _descent(path: Path) -> tuple[str, str, list[str]]:
    """Write the tables that lead to the objects which may have the last name of a path, the object, and parameters."""
    tables, found, values = "", "x.attributes", list[str]()
    for step, name in enumerate(path[:-1]):
        tables += OBJECTS.format(object=found, step=step) + ", "
        found = OBJECT.format(step=step)
        values += [_json_path(name)] * 3
    return tables, found, values


def _within(wanted: Within) -> Condition:
    kind = "v.type = 'text'" if isinstance(wanted.bounds[0][1], str | datetime) else "v.type IN ('integer', 'real')"
    bounds = [_bound(order, operand) for order, operand in wanted.bounds]
    return " AND ".join([kind, *(sql for sql, _ in bounds)]), [value for _, values in bounds for value in values]


def _bound(order: Order, operand: Operand) -> Condition:
    if not isinstance(operand, datetime):
        return f"v.atom {SIGNS[order]} ?", [operand]
    low, high = days_around(operand)  # so that few texts are read as moments
    day = ("v.atom >= ?", low) if order in {Order.GT, Order.GTE} else ("v.atom < ?", high)
    return f"{day[0]} AND {INSTANT}(v.atom) {SIGNS[order]} ?", [day[1], since_epoch(operand)]


def _json_path(name: str) -> str:
    return f'$."{name}"'
