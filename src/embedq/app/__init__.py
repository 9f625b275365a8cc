"""The composition root: the only package that imports all adapters."""

from embedq.app.application import App, Warming
from embedq.app.embedq import EmbedQ
from embedq.app.extras import require
from embedq.app.fetching import model_files
from embedq.app.settings import environment, load, table
from embedq.app.starting import open, start  # noqa: A004 public API

__all__ = ["App", "EmbedQ", "Warming", "environment", "load", "model_files", "open", "require", "start", "table"]
