"""Loads the settings; an error names all problems at once, with name, value and bounds."""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from embedq.errors import SettingsError
from embedq.settings.addresses import without_passwords
from embedq.settings.fields import Settings
from embedq.settings.reference import bounds, is_secret
from embedq.settings.sources import CONFIG_VARIABLE, address_of, config_path, found_file, read_file, variables_of
from embedq.settings.variables import Variable, settings_with

Fields = Mapping[str, FieldInfo]

PG_PASSWORD = "PGPASSWORD"  # noqa: S105 the driver's own variable, not its value
DATABASES = ("url", "queue_url")
SHOWN = 80  # characters of a wrong value


def load(variables: Sequence[Variable], /, **given: Any) -> Settings:  # noqa: ANN401 each is of its own field's type
    """Read the settings; arguments override environment and file. None counts as not given.

    Args:
        variables: What providers read, besides embedq's own settings.
        **given: Settings by their names in `embedq.toml`.
    """
    kind = settings_with(tuple(variables))
    given = {name: value for name, value in given.items() if value is not None}
    try:
        settings = kind(**given)
    except ValidationError as error:
        said = [_sentence(kind, detail, given) for detail in error.errors()]
        raise SettingsError("\n".join(dict.fromkeys(said))) from None  # the cause would show values
    _check_where_keys_go(settings, given)
    return settings


def _check_where_keys_go(settings: Settings, given: Mapping[str, Any]) -> None:
    """Refuse an address from a file that was not named explicitly, if a key of the environment would be sent to it."""
    found = found_file()
    if found is None:
        return
    fields, content = type(settings).model_fields, read_file()
    is_from_file = partial(_is_from_file, fields, given, content)
    for name in DATABASES if PG_PASSWORD in os.environ else ():
        url = getattr(settings, name) or ""
        if is_from_file(name) and url.lower().startswith("postgres"):
            [*_, variable] = variables_of(fields[name])
            raise SettingsError(
                f"{name} in {found} would send the {PG_PASSWORD} of your environment to {without_passwords(url)}, and "
                f"a file that just lies in the working directory may not: set {CONFIG_VARIABLE}={found} if it is "
                f"meant, or set {variable} in the environment"
            )
    for address, key in _keys_and_addresses(fields):
        if getattr(settings, key) and is_from_file(address) and not is_from_file(key):
            [*_, variable] = variables_of(fields[address])
            [*_, secret] = variables_of(fields[key])
            shown = without_passwords(getattr(settings, address))
            raise SettingsError(
                f"{address} in {found} would send the {secret} of your environment to {shown}, and a file that just "
                f"lies in the working directory may not: set {CONFIG_VARIABLE}={found} if it is meant, set {variable} "
                "in the environment, or write the key into the file too"
            )


def _keys_and_addresses(fields: Fields) -> Iterator[tuple[str, str]]:
    """Pair each address with the keys that are sent to it."""
    for name, field in fields.items():
        address = address_of(field)
        yield from ((name, key) for key in (address.secrets if address else ()))


def _is_from_file(fields: Fields, given: Mapping[str, Any], content: Mapping[str, Any], name: str) -> bool:
    variables = variables_of(fields[name])
    elsewhere = name in given or any(variable in os.environ for variable in variables)
    return not elsewhere and any(key in content for key in (name, *variables))


def _sentence(kind: type[Settings], detail: ErrorDetails, given: Mapping[str, Any]) -> str:
    if not detail["loc"]:  # settings that contradict each other
        return detail["msg"].removeprefix("Value error, ")
    name = str(detail["loc"][0])
    field = kind.model_fields.get(name)
    if field is None:
        return f"{name}: there is no such setting ({'given' if name in given else f'in {config_path()}'})"
    source, value = _origin(name, variables_of(field), given)
    if is_secret(field):
        return f"{source} is set but blank: give it a value, or unset it"
    return f"{source}={_shown(value)}: it must be {bounds(field)}"


def _origin(name: str, variables: Sequence[str], given: Mapping[str, Any]) -> tuple[str, object]:
    """Find where a field was set, to name it as it was written there."""
    if name in given:
        return name, given[name]
    for variable in variables:
        if variable in os.environ:
            return variable, os.environ[variable]
    content = read_file()
    key = next((key for key in (name, *variables) if key in content), name)
    return f"{key} in {config_path()}", content.get(key)


def _shown(value: object) -> str:
    text = repr(without_passwords(value) if isinstance(value, str) else value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
