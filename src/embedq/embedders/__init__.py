"""The embedders, chosen by name. A provider's library is imported only when that provider is asked for."""

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path

from embedq.embedders.known import canonical, known_dimensions
from embedq.errors import SettingsError
from embedq.model import EmbedderName
from embedq.ports import Embedder

__all__ = ["FAKE_LOG", "PROVIDERS", "build", "canonical", "check", "known_dimensions"]

FAKE_LOG = "EMBEDQ_FAKE_LOG"  # a file to which the fake embedder appends one JSON line per call
_LATER = ("ollama", "gemini")
_EXTRAS: Mapping[str, tuple[str, ...]] = {  # what each extra brings
    "local": ("onnxruntime", "onnx", "safetensors", "tokenizers"),
    "openai": ("openai",),
}


def check(name: EmbedderName) -> None:
    """Refuse a name that nothing in this version can build."""
    if name.provider in _LATER:
        raise SettingsError(f"{name}: {name.provider} is not in this version yet. Known now: {', '.join(PROVIDERS)}.")
    if name.provider not in PROVIDERS:
        raise SettingsError(f"{name}: there is no embedder {name.provider!r}. Known: {', '.join(PROVIDERS)}.")


def build(name: EmbedderName, *, environment: Mapping[str, str]) -> Embedder:
    """Make the embedder of this name, or refuse and say what is missing. Settings are read from `environment` only."""
    check(name)
    absent = [module for module in _EXTRAS.get(name.provider, ()) if importlib.util.find_spec(module) is None]
    if absent:
        raise SettingsError(f"{name} needs {', '.join(absent)}: run pip install 'embedq[{name.provider}]'.")
    return PROVIDERS[name.provider](canonical(name), environment)


def _local(name: EmbedderName, environment: Mapping[str, str]) -> Embedder:
    from embedq.embedders.local import LocalEmbedder  # noqa: PLC0415 - an extra

    return LocalEmbedder(name, environment=environment)


def _openai(name: EmbedderName, environment: Mapping[str, str]) -> Embedder:
    from embedq.embedders.openai import OpenAIEmbedder  # noqa: PLC0415 - an extra

    return OpenAIEmbedder(name, environment=environment)


def _fake(name: EmbedderName, environment: Mapping[str, str]) -> Embedder:
    from embedq.embedders.fake import FakeEmbedder  # noqa: PLC0415 - only for who asks for it
    from embedq.embedders.faults import VARIABLE, Faults  # noqa: PLC0415 - the same

    log = environment.get(FAKE_LOG, "")
    faults = Faults.parse(environment.get(VARIABLE, ""))
    return FakeEmbedder(name, faults=faults, log=Path(log) if log else None)


PROVIDERS: Mapping[str, Callable[[EmbedderName, Mapping[str, str]], Embedder]] = {
    "local": _local,
    "openai": _openai,
    "fake": _fake,
}
