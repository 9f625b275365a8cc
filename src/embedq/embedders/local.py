"""The provider `local`: all-MiniLM-L6-v2 on this machine's cores. No key, no network, no torch."""

from collections.abc import Mapping

from embedq.embedding import EmbedderLimits
from embedq.model import EmbedderName
from embedq.ports import Embedder, Provider
from embedq.ports.provider import ModelFiles
from embedq.settings import Variable

MODEL = "all-MiniLM-L6-v2"
DIMENSIONS = 384
MAX_TOKENS = 256  # the length it was trained for, and where texts are cut
MODEL_DIR = "EMBEDQ_MODEL_DIR"
LIMITS = EmbedderLimits(inputs=1024, tokens_per_text=MAX_TOKENS)


def _build(name: EmbedderName, environment: Mapping[str, str]) -> Embedder:
    from embedq.embedders.local_embedder import LocalEmbedder  # noqa: PLC0415 - its libraries are an extra

    return LocalEmbedder(name, environment=environment)


def _files(environment: Mapping[str, str]) -> ModelFiles:
    from embedq.embedders.local_fetch import LocalFiles  # noqa: PLC0415 - it imports this module

    return LocalFiles(environment)


PROVIDER = Provider(
    build=_build,
    files=_files,
    remote=False,
    limits=LIMITS,
    variables=(Variable(name=MODEL_DIR, filled=True, description="Where the weights of the local model lie."),),
    modules=("onnxruntime", "onnx", "safetensors", "tokenizers"),
    extra="local",
    default_model=MODEL,
    dimensions=DIMENSIONS,
)
