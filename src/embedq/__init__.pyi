from embedq.app import EmbedQ as EmbedQ
from embedq.app import open as open  # noqa: A004 the name that users write

__version__: str
