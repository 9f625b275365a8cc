"""The embedders, chosen by name. A provider is declared in one file; its library is imported when it is used."""

import importlib
import importlib.util
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace

from embedq.errors import SettingsError
from embedq.model import EmbedderName
from embedq.ports import Embedder, Provider
from embedq.ports.provider import Build, ModelFiles
from embedq.settings import Variable

__all__ = [
    "PROVIDERS",
    "absent",
    "build",
    "canonical",
    "declared",
    "files",
    "find",
    "known_dimensions",
    "variables",
]

# Each provider's module holds its declaration: PROVIDER.
PROVIDERS: MutableMapping[str, str] = {
    "local": "embedq.embedders.local",
    "openai": "embedq.embedders.openai",
    "gemini": "embedq.embedders.gemini",
    "ollama": "embedq.embedders.ollama",
    "fake": "embedq.embedders.fake",
}


def declared(provider: str) -> Provider:
    """Return a provider's declaration; KeyError: there is none of this name."""
    found: Provider = importlib.import_module(PROVIDERS[provider]).PROVIDER
    return found


def variables() -> tuple[Variable, ...]:
    """List the variables that providers read, each once."""
    return tuple(dict.fromkeys(variable for name in PROVIDERS for variable in declared(name).variables))


def find(name: EmbedderName) -> Provider:
    """Return the provider of a name; refuse one that this version cannot build."""
    return _found(name)[0]


def absent(modules: Sequence[str]) -> list[str]:
    """List the modules that are not installed."""
    return [module for module in modules if importlib.util.find_spec(module) is None]


def files(name: EmbedderName, *, environment: Mapping[str, str]) -> ModelFiles | None:
    """Return the files that an embedder runs on, if it does. Settings are read from `environment` only."""
    make = find(name).files
    return None if make is None else make(environment)


def build(name: EmbedderName, *, environment: Mapping[str, str]) -> Embedder:
    """Build the embedder of this name, or refuse and say what is missing. Settings are read from `environment` only."""
    provider, make = _found(name)
    if lacking := absent(provider.modules):
        raise SettingsError(f"{name} needs {', '.join(lacking)}: run pip install 'embedq[{provider.extra}]'.")
    return make(canonical(name), environment)


def canonical(name: EmbedderName) -> EmbedderName:
    """Return a name's canonical form, so that `local`, `local@384` and the model's full name are one space."""
    if name.provider not in PROVIDERS:
        return name
    provider = declared(name.provider)
    is_usual = name.dimensions == provider.dimensions
    return replace(name, model=name.model or provider.default_model, dimensions=None if is_usual else name.dimensions)


def known_dimensions(name: EmbedderName) -> int | None:
    """Return the vectors' dimensions. None: known after the first answer."""
    return declared(name.provider).dimensions_of(name) if name.provider in PROVIDERS else name.dimensions


def _found(name: EmbedderName) -> tuple[Provider, Build]:
    """Find the provider of a name and its build function, or refuse and list the known ones."""
    provider = declared(name.provider) if name.provider in PROVIDERS else None
    if provider is not None and provider.build is not None:
        return provider, provider.build
    known = ", ".join(each for each in PROVIDERS if declared(each).build is not None)
    if provider is not None:
        raise SettingsError(f"{name}: {name.provider} is not in this version yet. Known now: {known}.")
    raise SettingsError(f"{name}: there is no embedder {name.provider!r}. Known: {known}.")
