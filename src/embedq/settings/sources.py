"""Where values come from: the environment under our names and the seeds', then `embedq.toml`."""

import os
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from embedq.errors import SettingsError

CONFIG_VARIABLE = "EMBEDQ_CONFIG"
CONFIG_FILE = "embedq.toml"


@dataclass(frozen=True, slots=True, init=False)
class Names:
    """The variables that set a field; the first that is set wins, and ours stand first."""

    variables: tuple[str, ...]

    def __init__(self, *variables: str) -> None:
        """Name them in the order in which they win."""
        object.__setattr__(self, "variables", variables)


@dataclass(frozen=True, slots=True, init=False)
class Address:
    """Marks a URL: there may be a password in it, and the secrets of these settings are sent to it."""

    secrets: tuple[str, ...]

    def __init__(self, *secrets: str) -> None:
        """Name the settings whose values are sent there."""
        object.__setattr__(self, "secrets", secrets)


def address_of(field: FieldInfo) -> Address | None:
    """Say what a field is as an address, if it is one."""
    return next((entry for entry in field.metadata if isinstance(entry, Address)), None)


def variables_of(field: FieldInfo) -> tuple[str, ...]:
    """List a field's variables."""
    return next(entry.variables for entry in field.metadata if isinstance(entry, Names))


class VariableSource(PydanticBaseSettingsSource):
    """The environment."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Find the variable of a field that wins."""
        name = next((name for name in variables_of(field) if name in os.environ), None)
        return (os.environ[name] if name else None), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Read every field that has a variable set; a blank one is set."""
        found = {name: self.get_field_value(field, name)[0] for name, field in fields_of(self).items()}
        return {name: value for name, value in found.items() if value is not None}


class FileSource(PydanticBaseSettingsSource):
    """`embedq.toml` in the working directory, or the file that EMBEDQ_CONFIG names."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Find a field in the file, by its own name or one of its variables'."""
        content = read_file()
        for key in (field_name, *variables_of(field)):
            if key in content:
                return content[key], field_name, False
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        """Read the file by field names; what is no setting is kept, so that it is refused with the rest."""
        own = {key: name for name, field in fields_of(self).items() for key in variables_of(field)}
        return {own.get(key, key): value for key, value in read_file().items()}


def fields_of(source: PydanticBaseSettingsSource) -> dict[str, FieldInfo]:
    """List the fields a source fills."""
    settings: type[BaseSettings] = source.settings_cls
    return settings.model_fields


def config_path() -> Path | None:
    """Find the settings file, if there is one."""
    named = os.environ.get(CONFIG_VARIABLE)
    return Path(named) if named else found_file()


def found_file() -> Path | None:
    """Find the settings file that lies in the working directory and that nobody has named."""
    unnamed = not os.environ.get(CONFIG_VARIABLE)
    return Path(CONFIG_FILE) if unnamed and Path(CONFIG_FILE).is_file() else None


def read_file() -> dict[str, Any]:
    """Read the settings file; none there is an empty one."""
    path = config_path()
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the settings file {path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the settings file {path} is no valid TOML: {error}") from error
