"""How vectors are stored: quickly where none can be there, and rightly where one is."""

import asyncpg

from embedq.model import Ask, JobStatus, WorkerId
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import LEASE, NOON, done, has_vector_of, job_of, take_one, vector_of, write

ADD = "INSERT INTO embedq.vector_1 SELECT rid, collection, false, '\\x00', $1::text::vector FROM embedq.record"


async def test_a_vector_that_should_not_be_there_is_replaced(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The lease of a new record takes for granted that it has no vector; if it has one, the settle does not fail."""
    receipt = await write(store, "A")
    lease = await take_one(store)
    await db.execute(ADD, str(vector_of("B").tolist()))

    following = Ask(worker=WorkerId("w1"), spaces=[lease.space], limit=1, span=LEASE)
    settled = await store.settle([done(lease)], then=following, now=NOON)

    assert settled.jobs == {receipt.job_id}
    assert (await job_of(store, receipt)).status is JobStatus.COMPLETED
    assert await has_vector_of(store, "A")
