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
    """What is known of a provider's model before it is asked. None: not known."""

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

    def model(self, name: EmbedderName) -> Model:
        """Say what is known of a model: its own facts, else the provider's; dimensions that were asked for win."""
        known = self.models.get(name.model, Model())
        dimensions = known.dimensions if known.dimensions is not None else self.dimensions
        return Model(
            dimensions=dimensions if name.dimensions is None else name.dimensions, limits=known.limits or self.limits
        )
