from embedq.app import EmbedQ as EmbedQ
from embedq.app import open as open  # noqa: A004 public API

__version__: str
