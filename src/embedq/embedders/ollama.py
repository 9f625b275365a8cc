"""The provider `ollama`: declared, so that its settings are known; a later version builds it."""

from embedq.embedding import EmbedderLimits
from embedq.ports import Provider
from embedq.settings import Variable

PROVIDER = Provider(
    build=None,
    remote=True,
    limits=EmbedderLimits(inputs=100),
    variables=(Variable(name="OLLAMA_HOST", address=True, description="The server of `ollama:` embedders."),),
    extra="ollama",
)
