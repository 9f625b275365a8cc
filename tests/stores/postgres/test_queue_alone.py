"""A queue whose records are in another database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from tests.stores.postgres.test_held_jobs import hold

from embedq.model import JobStatus
from embedq.ports import Store
from embedq.stores.pair import PairStore
from embedq.stores.postgres import PostgresJobStore
from embedq.stores.sqlite import SqliteCorpusStore
from embedq.testing.stores.stage import DIMENSIONS, NOON, declaration, done, has_vector_of, job_of, take_one, write


@pytest_asyncio.fixture
async def pair(postgres_url: str, tmp_path: Path) -> AsyncIterator[Store]:
    """Join a SQLite corpus and a PostgreSQL queue, with one collection, `notes`."""
    queue = await PostgresJobStore.open(postgres_url)
    store = await PairStore.join(await SqliteCorpusStore.open(tmp_path / "corpus.db"), queue)
    collection = await store.declare(declaration(), now=NOON)
    await store.learn(collection.space.id, DIMENSIONS)
    yield store
    await store.close()


async def test_a_vector_that_is_elsewhere_is_not_kept_though_its_job_is_held(pair: Store, postgres_url: str) -> None:
    """The corpus has the vector already: the queue keeps none, says that the job is busy, and completes it later."""
    receipt = await write(pair, "A")
    lease = (await take_one(pair))._replace(erasure=None)  # as of a record that was gone when its text was read
    connection, transaction = await hold(postgres_url, ["a"])

    settled = await pair.settle([done(lease)], now=NOON)
    assert settled.busy == {receipt.job_id}
    assert await has_vector_of(pair, "A")

    await transaction.rollback()
    await connection.close()
    settled = await pair.settle([done(lease)], now=NOON)
    assert settled.jobs == {receipt.job_id}
    assert (await job_of(pair, receipt)).status is JobStatus.COMPLETED
