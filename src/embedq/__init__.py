"""A durable, asynchronous embedding queue that keeps vectors in step with data."""

from importlib import import_module
from typing import Any

__version__ = "0.3.0"
__all__ = ["EmbedQ", "SyncEmbedQ", "__version__", "connect", "open"]

_FOUND_IN = {"EmbedQ": "embedq.app", "SyncEmbedQ": "embedq.sync", "connect": "embedq.sync", "open": "embedq.app"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 the type depends on the name
    """Import the adapters only when they are used, so that the data types stay light to import."""
    if name not in _FOUND_IN:
        raise AttributeError(f"module 'embedq' has no attribute {name!r}")
    return getattr(import_module(_FOUND_IN[name]), name)
