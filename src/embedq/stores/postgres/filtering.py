"""Filters as conditions on a record `x`. What a filter means is said by `policy.matching`."""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import assert_never

from embedq.conditions import AllOf, AnyOf, Exists, Filter, Not, OneOf, Order, Path, Within
from embedq.policy.instants import days_around
from embedq.policy.matching import matches

SIGNS = {Order.GT: ">", Order.GTE: ">=", Order.LT: "<", Order.LTE: "<="}
NOT_EMPTY = "x.attributes <> '{}'"  # for the index of attributes, which leaves out records that have none

Condition = dict[str, str]  # a JSON path that must find something, and the range of moments which that must be of
Written = list[str | Condition]  # conditions, and the words between them


def conditions(wanted: Filter | None, parameter: str) -> tuple[str, list[str] | None]:
    """Write a filter as SQL, and the values of this parameter of it, a list of texts."""
    if wanted is None:
        return f"AND {parameter}::text[] IS NULL", None
    values, sql = list[str](), list[str]()
    for one in _filter(wanted):
        sql.append(one if isinstance(one, str) else _called(one, f"({parameter}::text[])", len(values)))
        values += [] if isinstance(one, str) else one.values()
    return f"AND ({' '.join(sql)})", values


def listed(wanted: Filter | None) -> str | None:
    """Write a filter as the database's function `conditions` reads it."""
    return None if wanted is None else json.dumps(_filter(wanted))


def _called(condition: Condition, values: str, before: int) -> str:
    """Write a condition, as the database's function does."""
    path = f"{values}[{before + 1}]::jsonpath"
    if "range" not in condition:
        return f"x.attributes @? {path}"
    return f"embedq.has_instant(x.attributes, {path}, {values}[{before + 2}]::tstzrange)"


def _filter(wanted: Filter) -> Written:
    return [*_written(wanted), *([] if matches(wanted, {}) else ["AND", NOT_EMPTY])]


def _written(wanted: Filter) -> Written:
    match wanted:
        case OneOf():
            return [{"path": _one_of(wanted)}]
        case Within():
            return [_within(wanted)]
        case Exists():
            return [{"path": _path(wanted.path)}]
        case Not():
            return ["NOT", "(", *_written(wanted.part), ")"]
        case AllOf():
            return _joined(wanted.parts, "AND")
        case AnyOf():
            return _joined(wanted.parts, "OR")
        case _:
            assert_never(wanted)


def _joined(parts: Sequence[Filter], word: str) -> Written:
    inner = [one for part in parts for one in (word, *_written(part))]
    return ["(", *inner[1:], ")"]


def _one_of(wanted: OneOf) -> str:
    """Write a JSON path to the values that equal one of these."""
    equal = " || ".join(f"@ == {json.dumps(value, ensure_ascii=False)}" for value in wanted.values)
    return _item(wanted.path, equal or "1 == 0")


def _within(wanted: Within) -> Condition:
    moments = [(order, operand) for order, operand in wanted.bounds if isinstance(operand, datetime)]
    if moments:
        return {"path": _item(wanted.path, " && ".join(_day(*bound) for bound in moments)), "range": _range(moments)}
    compared = [f"@ {SIGNS[order]} {json.dumps(operand, ensure_ascii=False)}" for order, operand in wanted.bounds]
    return {"path": _item(wanted.path, " && ".join(compared))}


def _day(order: Order, moment: datetime) -> str:
    """Write what every text within a bound is, so that few are read as moments."""
    low, high = days_around(moment)
    return f'@ >= "{low}"' if order in {Order.GT, Order.GTE} else f'@ < "{high}"'


def _range(bounds: Sequence[tuple[Order, datetime]]) -> str:
    """Write a range of moments."""
    low = max(((at, order is Order.GT) for order, at in bounds if order in {Order.GT, Order.GTE}), default=None)
    high = min(((at, order is Order.LTE) for order, at in bounds if order in {Order.LT, Order.LTE}), default=None)
    if low and high and low[0] > high[0]:
        return "empty"
    from_ = "(" if low is None else f"{'(' if low[1] else '['}{low[0].isoformat()}"
    to = ")" if high is None else f"{high[0].isoformat()}{']' if high[1] else ')'}"
    return f"{from_},{to}"


def _item(path: Path, fits: str) -> str:
    """Write a JSON path to the values that fit. A list stands for its items, but not for those of a list in it."""
    return f'{_path(path)} ? (@.type() != "array" && ({fits}))'


def _path(path: Path) -> str:
    return "$" + "".join(f".{json.dumps(step, ensure_ascii=False)}" for step in path)
