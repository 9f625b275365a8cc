"""The settings of a process: embedq's own, and those of every provider."""

import os
from typing import Any

from embedq import embedders, settings
from embedq.settings import Row, Settings


def load(**given: Any) -> Settings:  # noqa: ANN401 each is of its own field's type
    """Read the settings; arguments override environment and file. None counts as not given."""
    return settings.load(embedders.variables(), **given)


def table() -> list[Row]:
    """List all settings."""
    return settings.table(embedders.variables())


def environment(found: Settings) -> dict[str, str]:
    """Build the variables that embedders read, from the environment and the settings file."""
    return {**os.environ, **settings.values(found, embedders.variables())}
