"""Filters as they are typed: short forms of one condition each, or the whole as JSON."""

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from embedq.cli.options import as_utf8
from embedq.policy.filters import fits

Where = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        "-f",
        help="lang=en, lang!=de, year>=2020 (>, <, <=), or JSON; repeat it for more.",
        callback=as_utf8,
    ),
]
SHORT = re.compile(r"\s*(?P<name>[^=!<>]*[^=!<>\s])\s*(?P<sign>!=|>=|<=|=|>|<)(?P<value>.*)", re.DOTALL)
SEVERAL = {"=": "in", "!=": "not_in"}
BOUNDS = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


def read_conditions(written: Sequence[str] | None) -> dict[str, Any]:
    """Read `--filter` options into one filter: all must hold, but of several values of one attribute any."""
    short, whole = dict[str, dict[str, Any]](), list[dict[str, Any]]()
    for one in written or ():
        if one.lstrip().startswith("{"):
            whole.append(_read_json(one))
        else:
            _read_short(one, short)
    parts = [short, *whole] if short or not whole else whole
    return parts[0] if len(parts) == 1 else {"$and": parts}


def _read_short(written: str, found: dict[str, dict[str, Any]]) -> None:
    parts = SHORT.fullmatch(written)
    if parts is None:
        raise _wrong(f"{written!r}: write attribute=value, or !=, <, <=, >, >=, or JSON")
    operators = found.setdefault(parts["name"], {})
    if parts["sign"] in SEVERAL:
        operators.setdefault(SEVERAL[parts["sign"]], []).extend(_readings(parts["value"]))
        return
    operator = BOUNDS[parts["sign"]]
    if operator in operators:
        raise _wrong(f"{written!r}: there is another {parts['sign']} for this attribute")
    operators[operator] = _readings(parts["value"])[-1]


def _readings(text: str) -> list[Any]:
    """List the possible types of a value: `1843` may mean the text or the number."""
    try:
        value = json.loads(text)
    except ValueError:
        return [text]
    return [text, value] if isinstance(value, bool | int | float) and fits(value) else [text]


def _read_json(written: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(written)
    except ValueError as error:
        raise _wrong(f"{written[:80]!r} is no JSON: {error}") from error
    return found


def _wrong(said: str) -> typer.BadParameter:
    return typer.BadParameter(said, param_hint="--filter")
