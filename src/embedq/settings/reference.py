"""Describes the settings, for the reference page and error messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, get_args

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from embedq.settings.sources import variables_of
from embedq.settings.variables import Variable, settings_with

GROUPED_FROM = 1_000_000  # larger bounds are written with commas
KINDS = {bool: "1 or 0", int: "a whole number", float: "a number", str: "text", SecretStr: "a key"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One setting as the reference shows it."""

    key: str  # in embedq.toml
    variables: tuple[str, ...]
    default: str
    bounds: str
    description: str
    secret: bool


def table(variables: Sequence[Variable]) -> list[Row]:
    """List all settings: embedq's own, then what providers read."""
    return [row(name, field) for name, field in settings_with(tuple(variables)).model_fields.items()]


def row(name: str, field: FieldInfo) -> Row:
    """Describe one setting."""
    return Row(
        key=name,
        variables=variables_of(field),
        default="unset" if field.default is None else _plain(field.default),
        bounds=bounds(field),
        description=field.description or "",
        secret=is_secret(field),
    )


def bounds(field: FieldInfo) -> str:
    """Describe the accepted values."""
    low, high = _constraint(field, "ge"), _constraint(field, "le")
    pattern = _constraint(field, "pattern")
    if pattern and pattern.startswith("^("):
        return "one of " + ", ".join(pattern.strip("^()$").split("|"))
    if pattern:
        return "an http or https URL"
    kind = KINDS[_kind(field)]
    if low is not None:
        return f"{kind} from {low:g} to {high:g}" if high < GROUPED_FROM else f"{kind} from {low:g} to {high:,}"
    return f"{kind}, not blank" if _constraint(field, "min_length") else kind


def is_secret(field: FieldInfo) -> bool:
    """Say whether the value must never be shown."""
    return _kind(field) is SecretStr


def _kind(field: FieldInfo) -> type:
    options = [option for option in get_args(field.annotation) if option is not NoneType]
    found = options[0] if options else field.annotation
    return found if isinstance(found, type) else str


def _constraint(field: FieldInfo, name: str) -> Any:  # noqa: ANN401 a bound is of its field's type
    return next((getattr(entry, name) for entry in field.metadata if getattr(entry, name, None) is not None), None)


def _plain(value: object) -> str:
    return str(int(value)) if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
