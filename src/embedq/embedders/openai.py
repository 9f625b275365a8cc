"""The provider `openai`: the hosted service, and every server with its embeddings protocol."""

from collections.abc import Mapping

from embedq.embedding import EmbedderLimits
from embedq.model import EmbedderName
from embedq.ports import Embedder, Model, Provider
from embedq.settings import Variable

KEY, BASE_URL = "OPENAI_API_KEY", "OPENAI_BASE_URL"
ORGANIZATION, PROJECT = "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"
HOSTED = EmbedderLimits(inputs=2048, tokens_per_text=8192, tokens_per_call=300_000)


def _build(name: EmbedderName, environment: Mapping[str, str]) -> Embedder:
    from embedq.embedders.openai_embedder import OpenAIEmbedder  # noqa: PLC0415 - its library is an extra

    return OpenAIEmbedder(name, environment=environment)


PROVIDER = Provider(
    build=_build,
    remote=True,
    limits=EmbedderLimits(inputs=2048),  # self-hosted servers have their own limits
    variables=(
        Variable(name=KEY, secret=True, description="The key of `openai:` embedders."),
        Variable(name=BASE_URL, receives=(KEY,), description="Another server that speaks the same wire."),
        Variable(name=ORGANIZATION, description="The organization that `openai:` embedders are billed to."),
        Variable(name=PROJECT, description="The project that `openai:` embedders are billed to."),
    ),
    modules=("openai",),
    extra="openai",
    models={
        "text-embedding-3-small": Model(dimensions=1536, limits=HOSTED),
        "text-embedding-3-large": Model(dimensions=3072, limits=HOSTED),
        "text-embedding-ada-002": Model(dimensions=1536, limits=HOSTED),
    },
)
