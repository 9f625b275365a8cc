"""Waiting for records to be embedded."""

import asyncio
from collections.abc import Sequence
from time import monotonic

from embedq.client.options import ClientOptions
from embedq.errors import Invalid, NotFound
from embedq.model import EmbeddingStatus, RecordId
from embedq.policy.health import as_seen_here
from embedq.ports import Reading
from embedq.ports.needs import WaitStore

FIRST_PAUSE, LONGEST_PAUSE = 0.005, 0.25  # seconds between polls
LOOK_AT = 1000  # records per query


async def wait_for(
    store: WaitStore, collection: str, ids: Sequence[RecordId], *, seconds: float, options: ClientOptions
) -> dict[str, EmbeddingStatus]:
    """Poll with growing pauses until none of these records is pending; raise TimeoutError after `seconds`."""
    if not seconds >= 0:
        raise Invalid(f"timeout={seconds}: it must be a number of seconds, 0 or more")
    end, pause = monotonic() + seconds, FIRST_PAUSE
    statuses = await _statuses(store, collection, ids)
    while pending := [id_ for id_ in ids if statuses[id_] is EmbeddingStatus.PENDING]:
        left = end - monotonic()
        if left <= 0:
            raise TimeoutError(await _why(store, collection, len(pending), seconds, options))
        await asyncio.sleep(min(pause, left))
        pause = min(pause * 1.5, LONGEST_PAUSE)
        statuses |= await _statuses(store, collection, pending)
    return dict(statuses)


async def _statuses(store: Reading, collection: str, ids: Sequence[RecordId]) -> dict[str, EmbeddingStatus]:
    found: dict[str, EmbeddingStatus] = {}
    for start in range(0, len(ids), LOOK_AT):
        for record in await store.get(collection, ids[start : start + LOOK_AT]):
            found[record.id] = record.embedding_status
    if gone := [id_ for id_ in ids if id_ not in found]:
        raise NotFound(f"no record {gone[0]!r} in {collection!r}" + (f", nor {len(gone) - 1} more" * (len(gone) > 1)))
    return found


async def _why(store: WaitStore, collection: str, pending: int, seconds: float, options: ClientOptions) -> str:
    """Say what was waited for, and the likely cause of the delay."""
    these = "1 record" if pending == 1 else f"{pending:,} records"
    what = f"{these} of {collection!r} still pending after {seconds:g} s"
    if await store.paused():
        return f"{what}: the queue is paused; resume it"
    workers = as_seen_here(await store.workers(heartbeat=options.heartbeat), options.is_dead)
    if not any(worker.alive for worker in workers):
        return f"{what}: no worker is alive; start one with `embedq work`, or open with workers=1"
    return what
