"""What is declared of a provider of embeddings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from embedq.embedding import EmbedderLimits
from embedq.model import EmbedderName
from embedq.ports.embedder import Embedder
from embedq.settings import Variable

Build = Callable[[EmbedderName, Mapping[str, str]], Embedder]  # by its name and the variables; it may block


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What is known of a provider's model before it is asked. None: what the provider says."""

    dimensions: int | None = None
    limits: EmbedderLimits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider: all that settings, refusals and the reference need to know of it, without its library."""

    build: Build | None  # imports the library; None: a later version will have it
    remote: bool  # texts leave this machine, and the fleet's budget binds it
    limits: EmbedderLimits  # of models that say nothing else
    variables: tuple[Variable, ...] = ()  # what it reads
    modules: tuple[str, ...] = ()  # what it imports, beside embedq's own dependencies
    extra: str = ""  # the extra of `pyproject.toml` that brings them
    default_model: str = ""  # what a name without a model means
    dimensions: int | None = None  # of every model that says nothing else
    models: Mapping[str, Model] = field(default_factory=dict)

    def dimensions_of(self, name: EmbedderName) -> int | None:
        """Say how long vectors will be: as was asked for, else as the model's are, else as all of this provider's."""
        if name.dimensions is not None:
            return name.dimensions
        known = self.models.get(name.model, Model()).dimensions
        return self.dimensions if known is None else known

    def limits_of(self, name: EmbedderName) -> EmbedderLimits:
        """Say what a model takes."""
        return self.models.get(name.model, Model()).limits or self.limits
