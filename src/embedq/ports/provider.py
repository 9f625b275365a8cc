"""The declaration of a provider of embeddings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from embedq.embedding import EmbedderLimits
from embedq.model import EmbedderName
from embedq.ports.embedder import Embedder
from embedq.settings import Variable

Build = Callable[[EmbedderName, Mapping[str, str]], Embedder]  # from its name and the variables; may block
Progress = Callable[[int, int], None]  # bytes so far, and bytes in all


class ModelFiles(Protocol):
    """The files of a model that runs on this machine."""

    async def find(self) -> Path | None:
        """Return the folder of the intact files. None: they must be fetched."""
        ...

    async def fetch(self, progress: Progress) -> Path:
        """Fetch them; return their folder."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What is known of a provider's model before the first call. None: as the provider declares."""

    dimensions: int | None = None
    limits: EmbedderLimits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider: what settings, error messages and the reference need to know, without its library."""

    build: Build | None  # imports the library; None: a later version will have it
    remote: bool  # texts leave this machine, and the fleet's budget binds it
    limits: EmbedderLimits  # of models without their own
    variables: tuple[Variable, ...] = ()  # what it reads
    modules: tuple[str, ...] = ()  # what it imports, besides embedq's own dependencies
    extra: str = ""  # the extra of `pyproject.toml` that installs them
    default_model: str = ""  # what a name without a model means
    dimensions: int | None = None  # of models without their own
    models: Mapping[str, Model] = field(default_factory=dict)
    files: Callable[[Mapping[str, str]], ModelFiles] | None = None  # from the variables; None: it needs none

    def dimensions_of(self, name: EmbedderName) -> int | None:
        """Return the dimensions: those requested, else the model's, else the provider's."""
        if name.dimensions is not None:
            return name.dimensions
        known = self.models.get(name.model, Model()).dimensions
        return self.dimensions if known is None else known

    def limits_of(self, name: EmbedderName) -> EmbedderLimits:
        """Return a model's limits."""
        return self.models.get(name.model, Model()).limits or self.limits
