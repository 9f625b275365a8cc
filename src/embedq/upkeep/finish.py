"""What a dropped collection or a new `text_from` left to do is done, also after a crash in the middle of it."""

from datetime import datetime

from embedq.ports import Keeping


class Finish:
    """Goes on where a process was cut off, in small steps."""

    def __init__(self, store: Keeping) -> None:
        """Finish on this store."""
        self._store = store

    async def __call__(self, *, now: datetime | None = None) -> None:
        """Work until nothing is left to do."""
        while await self._store.finish(now=now):
            continue
