"""The files of a model that runs on this machine."""

from embedq import embedders
from embedq.app.settings import environment
from embedq.policy.naming import parse_embedder
from embedq.ports.provider import ModelFiles
from embedq.settings import Settings


def model_files(settings: Settings) -> ModelFiles | None:
    """Return the files that the settings' embedder runs on, if it does."""
    return embedders.files(parse_embedder(settings.embedder), environment=environment(settings))
