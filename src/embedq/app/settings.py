"""The settings of a process: embedq's own, and those of every provider that there is."""

import os
from typing import Any

from embedq import embedders, settings
from embedq.settings import Row, Settings


def load(**given: Any) -> Settings:  # noqa: ANN401 each is of its own field's type
    """Read the settings; what is given here wins over environment and file. None counts as not given."""
    return settings.load(embedders.variables(), **given)


def table() -> list[Row]:
    """List all settings."""
    return settings.table(embedders.variables())


def environment(found: Settings) -> dict[str, str]:
    """Lay out the variables that embedders read; what is in the settings file counts like a variable."""
    return {**os.environ, **settings.values(found, embedders.variables())}
