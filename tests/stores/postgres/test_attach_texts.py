"""Which texts become records, and what is said of rows that cannot."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.tables import CREATE, attach, attach_docs, catch_up, in_step, one, records

from embedq.policy.texts import Limits
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS


@pytest_asyncio.fixture
async def small(postgres_url: str, store: PostgresStore) -> AsyncIterator[PostgresStore]:
    """Open a store that takes texts of up to 100 bytes."""
    del store
    opened = await PostgresStore.open(postgres_url, limits=Limits(text_bytes=100))
    yield opened
    await opened.close()


@pytest.mark.parametrize("nothing", [None, "", " \t\n "])
async def test_a_row_without_a_text_is_no_record(
    store: PostgresStore, db: asyncpg.Connection, nothing: str | None
) -> None:
    """It never was one, or it stops being one and its column is cleared; with a text it is one again."""
    await attach_docs(store, db, rows=2)
    await db.execute("INSERT INTO docs VALUES (3, $1)", nothing)
    await db.execute("UPDATE docs SET body = $1 WHERE id = 1", nothing)

    assert await catch_up(store) == 0

    assert await in_step(store, db) == 1
    await db.execute("UPDATE docs SET body = 'back' WHERE id <> 2")
    assert await catch_up(store) == 2
    assert await in_step(store, db) == 3


async def test_columns_are_joined_in_order(store: PostgresStore, db: asyncpg.Connection) -> None:
    """NULL and empty columns leave no gap, and any type is written as it reads."""
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, a text, b int, c jsonb, d date)")
    await db.execute("""INSERT INTO docs VALUES (1, 'x', 5, '{"k": 1}', '2024-02-01'),
        (2, '', NULL, NULL, '2024-02-01'), (3, NULL, 7, NULL, NULL), (4, NULL, NULL, NULL, NULL)""")
    await db.execute("SET DateStyle = 'German'")
    await attach(store, text=("d", "a", "b", "c"), into=None)
    await catch_up(store)

    assert await records(store) == {"1": '2024-02-01\nx\n5\n{"k": 1}', "2": "2024-02-01", "3": "7"}


async def test_a_text_that_is_too_large_is_refused_and_heals(small: PostgresStore, db: asyncpg.Connection) -> None:
    """The reason names the limit, its old vector goes, the other rows are embedded, and a shorter text heals it."""
    await attach_docs(small, db, rows=2)
    await db.execute("UPDATE docs SET body = repeat('ä', 51) WHERE id = 1; INSERT INTO docs VALUES (3, 'three')")

    assert await catch_up(small) == 1

    now = await one(small)
    assert now.refusals == 1
    assert "its text has 102 bytes, the limit is 100" in now.refused["1"]
    assert await records(small) == {"2": "text 2", "3": "three"}
    assert await db.fetchval("SELECT e IS NULL FROM docs WHERE id = 1")
    await db.execute("UPDATE docs SET body = repeat('ä', 50) WHERE id = 1")
    assert await catch_up(small) == 1
    assert (await one(small)).refusals == 0
    assert await in_step(small, db) == 3


@pytest.mark.parametrize("end", ["DELETE FROM docs WHERE id = 1", "TRUNCATE docs"])
async def test_a_refusal_ends_with_its_row(small: PostgresStore, db: asyncpg.Connection, end: str) -> None:
    """Nothing is said of rows that are gone."""
    await attach_docs(small, db)
    await db.execute("INSERT INTO docs VALUES (1, repeat('x', 200)), (2, 'two')")
    await catch_up(small)
    assert (await one(small)).refusals == 1

    await db.execute(end)
    await catch_up(small)

    assert (await one(small)).refusals == 0


async def test_a_row_that_cannot_be_read_stops_no_other(store: PostgresStore, db: asyncpg.Connection) -> None:
    """It is found by halving, listed with what the database says, and heals by itself."""
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, body text, facts json)")
    await db.execute("INSERT INTO docs SELECT n, 'text ' || n, '{}' FROM generate_series(1, 300) n")
    await db.execute("""UPDATE docs SET facts = '{"a": "\\u0000"}' WHERE id IN (70, 71, 299)""")
    await attach(store, attributes=("facts",), into=None)

    assert await catch_up(store) == 297

    now = await one(store)
    assert set(now.refused) == {"70", "71", "299"}
    assert "\\u0000" in now.refused["70"] or "Unicode" in now.refused["70"]
    assert now.problem is None
    await db.execute("UPDATE docs SET facts = NULL")
    await catch_up(store)
    assert (await one(store)).refusals == 0
    assert len(await records(store)) == 300


async def test_huge_texts_are_taken_over_in_small_parts(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Many texts of almost a megabyte each are never in memory together, and all become records."""
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, body text)")
    await db.execute("INSERT INTO docs SELECT n, repeat('x' || n % 10, 500000) FROM generate_series(1, 40) n")
    await attach(store, into=None)

    while await store.gather():
        pass

    parts = await db.fetchval("SELECT count(DISTINCT created_at) FROM embedq.record")  # one moment for each
    assert parts > 40 // 34
    assert (await store.counts())["docs"].records == 40
    assert (await one(store)).refusals == 0


async def test_an_older_vector_of_the_table_is_replaced(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A column that somebody filled before is written over, row by row as they are embedded."""
    await db.execute(CREATE)
    zeros = "[" + ",".join("0" * DIMENSIONS) + "]"
    await db.execute(
        "INSERT INTO docs SELECT n, 'text ' || n, NULL, $1::text::vector FROM generate_series(1, 3) n", zeros
    )
    await attach(store)

    assert await catch_up(store) == 3

    assert await in_step(store, db) == 3
