"""Vectors that are in the table's own column already are adopted where somebody says whose they are."""

# ruff: noqa: S608 (vectors are put into statements here on purpose)

import asyncio

import asyncpg
import pytest
from tests.stores.postgres.tables import CREATE, PATIENCE, attach, attach_docs, in_step, one, pay

import embedq
from embedq.errors import Invalid
from embedq.model import Query
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS, vector_of

OWN = "[" + ",".join(str(n) for n in range(DIMENSIONS)) + "]"


async def test_vectors_in_the_column_are_adopted(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Whoever knows whose they are pays nothing; rows without one, or with one of another length, are embedded."""
    await db.execute(CREATE.replace(f"vector({DIMENSIONS})", "vector"))
    await db.execute(f"INSERT INTO docs SELECT n, 'text ' || n, 0, '{OWN}' FROM generate_series(1, 5) n")
    await db.execute("UPDATE docs SET e = NULL WHERE id = 4; UPDATE docs SET e = '[1,2,3]' WHERE id = 5")

    await attach(store, adopt=True)
    await db.execute("UPDATE docs SET body = 'edited' WHERE id = 3")  # before anybody has looked at it
    paid = await pay(store)

    assert paid == {"edited", "text 4", "text 5"}
    assert (await one(store)).adopted == 2
    rows = {row["id"]: row["e"] for row in await db.fetch("SELECT id, e::text AS e FROM docs")}
    assert rows[1] == rows[2] == OWN
    assert OWN not in (rows[3], rows[4], rows[5])
    hits = await store.search_vector("docs", vector_of("text 4"), Query(k=5))
    assert len(hits) == 5
    await db.execute("UPDATE docs SET e = NULL WHERE id = 1; UPDATE docs SET body = 'second' WHERE id = 2")
    assert await pay(store) == {"second"}
    assert await db.fetchval("SELECT e::text FROM docs WHERE id = 1") == OWN


@pytest.mark.parametrize("busy", ["before", "after"])
async def test_a_writer_who_commits_later_is_not_adopted(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str, busy: str
) -> None:
    """A transaction that began before the attachment and edits after it brings a text of its own."""
    await db.execute(CREATE)
    await db.execute(f"INSERT INTO docs SELECT n, 'text ' || n, 0, '{OWN}' FROM generate_series(1, 3) n")
    writer = await asyncpg.connect(postgres_url)
    await writer.execute("CREATE TABLE elsewhere (id int)")
    transaction = writer.transaction()
    await transaction.start()
    if busy == "before":
        await writer.execute("INSERT INTO elsewhere VALUES (1)")  # it has a number that is lower than the attachment's

    await attach(store, adopt=True)
    await writer.execute("UPDATE docs SET body = 'edited' WHERE id = 2")
    await transaction.commit()
    await writer.close()

    assert await pay(store) == {"edited"}
    assert (await one(store)).adopted == 2


async def test_adopting_is_over_after_one_walk(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Vectors that somebody writes into the column later are no vectors of ours."""
    await db.execute(CREATE)
    await db.execute(f"INSERT INTO docs SELECT n, 'text ' || n, 0, '{OWN}' FROM generate_series(1, 2) n")
    await attach(store, adopt=True)
    assert await pay(store) == set()

    await db.execute(f"INSERT INTO docs VALUES (3, 'third', 0, '{OWN}')")
    await attach(store)

    assert await pay(store) == {"third"}
    assert await db.fetchval("SELECT adopting IS NULL FROM embedq.attachment")


async def test_a_table_that_was_detached_adopts_its_vectors(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Detaching forgets what embedq has stored, but the column stays."""
    await attach_docs(store, db, rows=3)
    await store.detach("docs")
    while await store.finish():
        pass

    await attach(store, adopt=True)

    assert await pay(store) == set()
    assert await in_step(store, db) == 3


async def test_halfvecs_are_adopted(store: PostgresStore, db: asyncpg.Connection) -> None:
    """They are stored as vectors of the same numbers."""
    await db.execute(CREATE.replace("vector(", "halfvec("))
    await db.execute(f"INSERT INTO docs VALUES (1, 'one', 0, '{OWN}')")

    await attach(store, adopt=True)

    assert await pay(store) == set()
    assert await db.fetchval("SELECT e::text FROM docs") == OWN


async def test_workers_embed_nothing_that_was_adopted(postgres_url: str) -> None:
    """The whole way with a worker: rows keep their own vectors, and are found by them."""
    async with embedq.open(postgres_url, embedder="fake@8", workers=1) as eq:
        db = await asyncpg.connect(postgres_url)
        await db.execute(CREATE)
        await db.execute(f"INSERT INTO docs SELECT n, 'text ' || n, 0, '{OWN}' FROM generate_series(1, 50) n")

        await eq.tables.attach("docs", key=["id"], text=["body"], into="e", adopt=True)
        async with asyncio.timeout(PATIENCE):
            while (await eq.operator.status()).counts["docs"].completed < 50:  # noqa: ASYNC110 the server tells nobody
                await asyncio.sleep(0.02)

        [attached] = await eq.tables.listing()
        assert attached.adopted == 50
        assert await db.fetchval("SELECT count(*) FROM docs WHERE e = $1::text::vector", OWN) == 50
        assert (await eq.search("docs", "text 7")).freshness.coverage == 1.0
        await db.close()


async def test_adopting_needs_a_column(postgres_url: str) -> None:
    """Where should the vectors come from?"""
    async with embedq.open(postgres_url, embedder="fake@8") as eq:
        with pytest.raises(Invalid, match="--into"):
            await eq.tables.attach("docs", key=["id"], text=["body"], adopt=True)
