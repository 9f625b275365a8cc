"""Where values come from: the environment under our names and alternative ones, then `embedq.toml`."""

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
    """The variables that set a field; the first that is set wins, and ours come first."""

    variables: tuple[str, ...]

    def __init__(self, *variables: str) -> None:
        """Name them in order of precedence."""
        object.__setattr__(self, "variables", variables)


@dataclass(frozen=True, slots=True, init=False)
class Address:
    """Marks a URL: it may contain a password, and the secrets of these settings are sent to it."""

    secrets: tuple[str, ...]

    def __init__(self, *secrets: str) -> None:
        """Name the settings whose values are sent there."""
        object.__setattr__(self, "secrets", secrets)


def address_of(field: FieldInfo) -> Address | None:
    """Return a field's `Address` mark, if it has one."""
    return next((entry for entry in field.metadata if isinstance(entry, Address)), None)


def variables_of(field: FieldInfo) -> tuple[str, ...]:
    """List a field's variables."""
    return next(entry.variables for entry in field.metadata if isinstance(entry, Names))


class VariableSource(PydanticBaseSettingsSource):
    """The environment."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Find the first variable of a field that is set."""
        name = next((name for name in variables_of(field) if name in os.environ), None)
        return (os.environ[name] if name else None), field_name, False

    def __call__(self) -> dict[str, Any]:
        """Read every field that has a variable set; a blank one counts as set."""
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
        """Read the file by field names; unknown keys are kept, so that validation refuses them."""
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
    """Find the settings file in the working directory, if none was named explicitly."""
    unnamed = not os.environ.get(CONFIG_VARIABLE)
    return Path(CONFIG_FILE) if unnamed and Path(CONFIG_FILE).is_file() else None


def _check_owner(path: Path) -> None:
    """Refuse a file that nobody has named and another user has put into a folder that is not that user's."""
    if found_file() and path.stat().st_uid not in {os.geteuid(), 0, path.absolute().parent.stat().st_uid}:
        raise SettingsError(
            f"{path} is another user's, who could choose where your texts go: set {CONFIG_VARIABLE}={path} if it is "
            "meant, or run embedq in another folder"
        )


def read_file() -> dict[str, Any]:
    """Read the settings file; a missing one is empty."""
    path = config_path()
    if path is None:
        return {}
    try:
        _check_owner(path)
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"the settings file {path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the settings file {path} is no valid TOML: {error}") from error
