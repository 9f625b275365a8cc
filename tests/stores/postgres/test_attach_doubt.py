"""While a table cannot be followed, no search, status or figure says that its vectors are current."""

from datetime import timedelta

import asyncpg
import pytest
from tests.stores.postgres.tables import attach_docs, mend

import embedq
from embedq.metrics import _of_collection
from embedq.operator.watching import look
from embedq.shapes.queue import QueueStatus
from embedq.shapes.search import Found
from embedq.stores.postgres import PostgresStore

LOST = {
    "a text column is renamed": ("ALTER TABLE docs RENAME body TO words", "has no column 'body'"),
    "the table is gone": ("DROP TABLE docs", "is gone"),
    "the target is gone": ("ALTER TABLE docs DROP e", "has no column 'e'"),
    "its triggers sleep": ("ALTER TABLE docs DISABLE TRIGGER ALL", "triggers are disabled"),
}


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize(("statement", "why"), LOST.values(), ids=list(LOST))
async def test_a_search_knows_that_it_does_not_know(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str, statement: str, why: str, *, looked: bool
) -> None:
    """Coverage is not 1, hits are stale, and the answer says why; at once where a glance shows it."""
    await attach_docs(store, db, rows=3)
    async with embedq.open(postgres_url, embedder="fake") as eq:
        before = await eq.search("docs", "text", mode="keyword")
        assert (before.freshness.coverage, before.freshness.trouble) == (1.0, None)
        assert {hit.stale for hit in before.hits} == {False}
        await db.execute(statement)
        if looked or "TRIGGER" in statement:
            await mend(store)

        answer = await eq.search("docs", "text", mode="keyword")

    assert len(answer.hits) == 3
    assert {hit.stale for hit in answer.hits} == {True}
    assert answer.freshness.coverage == 0.0
    assert why in str(answer.freshness.trouble)
    assert Found.of(answer).freshness.trouble == answer.freshness.trouble
    status = await look(store, heartbeat=timedelta(minutes=1), recovery=True)
    assert dict(QueueStatus.of(status).coverage) == {"total": 0.0, "by_collection": {"docs": 0.0, "notes": 1.0}}
    assert any(why in note for note in status.notes)
    figures = {name: value for name, _, value in _of_collection("docs", status.counts["docs"])}
    assert figures["embedq_coverage_ratio"] == 0.0


async def test_a_table_that_is_followed_again_is_trusted_again(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Once it was looked at anew."""
    await attach_docs(store, db, rows=3)
    await db.execute("ALTER TABLE docs RENAME body TO words")
    await mend(store)
    assert (await store.freshness("docs")).coverage == 0.0

    await db.execute("ALTER TABLE docs RENAME words TO body")
    await mend(store)

    fresh = await store.freshness("docs")
    assert (fresh.coverage, fresh.trouble) == (1.0, None)
