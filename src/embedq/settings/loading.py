"""Loading: all that is wrong is said at once, with its name, its value and its bounds."""

import os
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from embedq.errors import SettingsError
from embedq.settings.addresses import without_passwords
from embedq.settings.fields import Settings
from embedq.settings.reference import bounds, is_secret
from embedq.settings.sources import config_path, read_file, variables_of

SHOWN = 80  # characters of a wrong value


def load(**given: Any) -> Settings:  # noqa: ANN401 each is of its own field's type
    """Read the settings; what is given here wins over environment and file. None counts as not given."""
    given = {name: value for name, value in given.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        said = [_sentence(detail, given) for detail in error.errors()]
        raise SettingsError("\n".join(dict.fromkeys(said))) from None  # the cause would show values


def _sentence(detail: ErrorDetails, given: Mapping[str, Any]) -> str:
    if not detail["loc"]:  # settings that contradict each other
        return detail["msg"].removeprefix("Value error, ")
    name = str(detail["loc"][0])
    field = Settings.model_fields.get(name)
    if field is None:
        return f"{name}: there is no such setting ({'given' if name in given else f'in {config_path()}'})"
    source, value = _origin(name, given)
    if is_secret(field):
        return f"{source} is set but blank: give it a value, or unset it"
    return f"{source}={_shown(value)}: it must be {bounds(field)}"


def _origin(name: str, given: Mapping[str, Any]) -> tuple[str, object]:
    """Find who set a field, to name it as its author wrote it."""
    variables = variables_of(Settings.model_fields[name])
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
