"""The client without asyncio: the same methods, which wait for their answers."""

from embedq.sync.connecting import SyncEmbedQ, connect
from embedq.sync.operator import SyncOperator
from embedq.sync.tables import SyncTables

__all__ = ["SyncEmbedQ", "SyncOperator", "SyncTables", "connect"]
