"""A whole batch is completed at once only if it is what was leased: by the same lease, of the same texts."""

import asyncpg
import pytest

from embedq.model import Ask, JobStatus, WorkerId
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import LEASE, NOON, done, job_of, read, space_of, take, write_many

# What the same token stands for in another history, after a failover or a restore.
ANOTHER_LEASE = "UPDATE embedq.lease SET nonce = nonce # 1"
ANOTHER_TEXT = "UPDATE embedq.record SET text = 'edited', hash = sha256('edited')"
ITS_HASH = "UPDATE embedq.job SET hash = sha256('edited')"


@pytest.mark.parametrize("change", [(ANOTHER_LEASE,), (ANOTHER_TEXT, ITS_HASH)], ids=["lease", "text"])
async def test_a_batch_of_another_history_is_not_completed_whole(
    store: PostgresStore, db: asyncpg.Connection, change: tuple[str, ...]
) -> None:
    """A lease of the same number and the same jobs, but with another nonce or of other texts: nothing is stored."""
    receipts = await write_many(store, 3)
    leases = await take(store)
    ask = Ask(worker=WorkerId("w1"), spaces=[await space_of(store)], limit=10, span=LEASE)
    for statement in change:
        await db.execute(statement)

    await store.settle([done(lease) for lease in leases], then=ask, now=NOON)

    assert {(await job_of(store, receipt)).status for receipt in receipts} == {JobStatus.PROCESSING}
    assert [(await read(store, receipt.id)).vector for receipt in receipts] == [None] * 3
