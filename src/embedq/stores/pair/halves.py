"""The two halves, and what one must pass to the other. The corpus first, then the queue [11]."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from embedq.errors import NotFound
from embedq.exchange import Arm, Loss, Queued
from embedq.model import JobStatus, Reason, RecordId
from embedq.ports.halves import Corpus, JobStore, RecordName

GIVEN_UP = (JobStatus.FAILED, JobStatus.CANCELLED)


class Halves:
    """A corpus and a job store."""

    def __init__(self, corpus: Corpus, queue: JobStore) -> None:
        """Join two halves that are already open."""
        self._corpus = corpus
        self._queue = queue

    async def _enqueue(self, collection: str, arms: Sequence[Arm], now: datetime | None) -> Sequence[Queued]:
        """Arm jobs. A queue that was wiped, or was unreachable at a declaration, gets the collection first."""
        if not arms:
            return []
        try:
            return await self._queue.enqueue(collection, arms, now=now)
        except NotFound:
            await self._declare_in_queue(collection, now)
            return await self._queue.enqueue(collection, arms, now=now)

    async def _declare_in_queue(self, collection: str, now: datetime | None) -> None:
        """Declare a collection in the queue as the corpus has it."""
        for found in await self._corpus.collections():
            if found.declaration.name == collection:
                await self._queue.declare(found, now=now)

    async def _note_losses(self, collection: str, records: Sequence[RecordId]) -> None:
        """Note in the corpus which of these texts the queue has given up on, so that it outlives their dead letters."""
        states = await self._queue.states(collection, records)
        losses = [
            Loss(record, state.hash, state.reason)
            for record, state in states.items()
            if state.status in GIVEN_UP and state.reason not in (None, Reason.RECORD_DELETED)
        ]
        if losses:
            await self._corpus.give_up(collection, losses)


def by_collection(records: Sequence[RecordName]) -> dict[str, list[RecordId]]:
    """Group record names by collection, each once."""
    found: dict[str, dict[RecordId, None]] = defaultdict(dict)
    for collection, record in records:
        found[collection][record] = None
    return {collection: list(ids) for collection, ids in found.items()}
