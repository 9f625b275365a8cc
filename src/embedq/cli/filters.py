"""Filters as they are typed: short forms of one condition each, or the whole as JSON."""

import json
import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from embedq.cli.options import as_utf8
from embedq.errors import Invalid
from embedq.policy.filters import fits, read_json

Where = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        "-f",
        help="lang=en, lang!=de, year>=2020 (>, <, <=), or JSON; repeat it for more.",
        callback=as_utf8,
    ),
]
SHORT = re.compile(r"\s*(?P<name>[^=!<>]*[^=!<>\s])\s*(?P<sign>!=|>=|<=|=|>|<)\s*(?P<value>.*?)\s*", re.DOTALL)
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
    if parts["value"].startswith("="):
        raise _wrong(f"{written!r}: write {parts['sign']} without another =, or JSON for a value that begins so")
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
        return read_json(written)
    except Invalid as refused:
        raise _wrong(f"{written[:80]!r}: {refused}") from refused
    except (ValueError, RecursionError) as error:
        raise _wrong(f"{written[:80]!r} is no JSON: {error}") from error


def _wrong(said: str) -> typer.BadParameter:
    return typer.BadParameter(said, param_hint="--filter")
