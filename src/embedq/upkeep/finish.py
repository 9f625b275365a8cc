"""Completes the work of a dropped collection or a new `text_from`, also after a crash."""

from datetime import datetime

from embedq.ports import Keeping


class Finish:
    """Continues interrupted work in small steps."""

    def __init__(self, store: Keeping) -> None:
        """Finish on this store."""
        self._store = store

    async def __call__(self, *, now: datetime | None = None) -> None:
        """Work until nothing is left to do."""
        while await self._store.finish(now=now):
            continue
