"""The provider `gemini`: declared, so that its settings are known; a later version builds it."""

from embedq.embedding import EmbedderLimits
from embedq.ports import Provider
from embedq.settings import Variable

KEY, BASE_URL = "GEMINI_API_KEY", "GEMINI_BASE_URL"

PROVIDER = Provider(
    build=None,
    remote=True,
    limits=EmbedderLimits(inputs=100),
    variables=(
        Variable(name=KEY, secret=True, description="The key of `gemini:` embedders."),
        Variable(name=BASE_URL, receives=(KEY,), description="Another server for `gemini:` embedders."),
    ),
    extra="gemini",
)
