"""Variables that providers declare: each becomes a setting like any other."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field, SecretStr, create_model

from embedq.settings.fields import Settings
from embedq.settings.sources import Address, Names

OURS = "EMBEDQ_"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable that a provider reads."""

    name: str  # in the environment
    description: str
    secret: bool = False  # never shown
    address: bool = False  # a URL, which may contain a password
    receives: tuple[str, ...] = ()  # an address: the variables of the secrets that are sent there
    filled: bool = False  # a blank one is refused

    @property
    def key(self) -> str:
        """The setting's name in `embedq.toml`."""
        return self.name.removeprefix(OURS).lower()


@lru_cache(maxsize=8)
def settings_with(variables: tuple[Variable, ...]) -> type[Settings]:
    """Build the class of all settings: embedq's own, then those of the providers."""
    fields: dict[str, Any] = {variable.key: _field(variable) for variable in variables}
    return create_model("Settings", __base__=Settings, __module__=__name__, **fields)


def values(settings: Settings, variables: Sequence[Variable]) -> dict[str, str]:
    """Return those of these variables that are set, from any source."""
    found = {variable.name: getattr(settings, variable.key, None) for variable in variables}
    return {name: _plain(value) for name, value in found.items() if value is not None}


def _field(variable: Variable) -> tuple[Any, Any]:
    kind = SecretStr if variable.secret else str
    marks: list[object] = [Names(variable.name)]
    is_address = variable.address or bool(variable.receives)
    if is_address:
        marks.append(Address(*(name.removeprefix(OURS).lower() for name in variable.receives)))
    annotation = Annotated[(kind | None, *marks)]  # type: ignore[valid-type]  # known at run time
    least = 1 if variable.filled else None
    return annotation, Field(None, min_length=least, repr=not is_address, description=variable.description)


def _plain(value: str | SecretStr) -> str:
    return value.get_secret_value() if isinstance(value, SecretStr) else value
