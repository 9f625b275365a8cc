"""Partitioned tables: writes through the parent and past it, rows that move, partitions that come and go."""

# ruff: noqa: S608 (names of tables are put into statements here on purpose)

import asyncpg
import pytest
from tests.stores.postgres.tables import attach, catch_up, in_step, mend, one, records

from embedq.errors import Invalid
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS

RANGE = f"""
CREATE TABLE docs (id int PRIMARY KEY, body text, e vector({DIMENSIONS})) PARTITION BY RANGE (id);
CREATE TABLE docs_low PARTITION OF docs FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE docs_high PARTITION OF docs FOR VALUES FROM (100) TO (1000);
INSERT INTO docs SELECT n * 40, 'text ' || n FROM generate_series(1, 6) n;
"""
MERGE = """
MERGE INTO docs d USING (VALUES (40), (700)) v (id) ON d.id = v.id WHEN MATCHED THEN UPDATE SET body = 'm'
WHEN NOT MATCHED THEN INSERT VALUES (v.id, 'new')
"""
LIST = f"""
CREATE TABLE docs (id int, kind text, body text, e vector({DIMENSIONS}), PRIMARY KEY (kind, id))
  PARTITION BY LIST (kind);
CREATE TABLE docs_a PARTITION OF docs FOR VALUES IN ('a');
CREATE TABLE docs_rest PARTITION OF docs DEFAULT PARTITION BY RANGE (id);
CREATE TABLE docs_rest_low PARTITION OF docs_rest FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE docs_rest_high PARTITION OF docs_rest FOR VALUES FROM (100) TO (MAXVALUE);
INSERT INTO docs SELECT n * 40, CASE n % 2 WHEN 0 THEN 'a' ELSE 'b' END, 'text ' || n FROM generate_series(1, 6) n;
"""
LIST_ROWS = "SELECT jsonb_build_array(kind, id::text)::text AS id, body AS text, e::text AS e FROM docs"


@pytest.mark.parametrize(
    "write",
    [
        "INSERT INTO docs VALUES (50, 'low'), (500, 'high')",
        "INSERT INTO docs_low VALUES (50, 'low'); INSERT INTO docs_high VALUES (500, 'high')",
        "UPDATE docs SET body = body || '!'",
        "UPDATE docs_high SET body = body || '!'",
        "UPDATE docs SET id = id + 100",
        "UPDATE docs SET id = 999 WHERE id = 40",
        "UPDATE docs_low SET id = id + 1, body = 'moved'",
        "DELETE FROM docs WHERE id IN (40, 200)",
        "DELETE FROM docs_low",
        "TRUNCATE docs_low",
        "TRUNCATE docs",
        MERGE,
        "INSERT INTO docs VALUES (40, 'x'), (300, 'y') ON CONFLICT (id) DO UPDATE SET body = excluded.body",
    ],
)
async def test_writes_to_ranges_are_followed(store: PostgresStore, db: asyncpg.Connection, write: str) -> None:
    """Through the parent or straight into a partition, also where rows move between them."""
    await db.execute(RANGE)
    await attach(store)
    await catch_up(store)

    await db.execute(write)
    await catch_up(store)

    assert await in_step(store, db) == await db.fetchval("SELECT count(*) FROM docs")
    assert (await one(store)).problem is None


async def test_lists_and_nested_partitions_are_followed(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Every level is watched, and rows move between all of them."""
    await db.execute(LIST)
    await attach(store, key=("id", "kind"))
    await catch_up(store)

    await db.execute("""
        UPDATE docs SET kind = 'c' WHERE id = 80; UPDATE docs_rest SET id = id + 100;
        DELETE FROM docs_rest_high WHERE id = 140;
        INSERT INTO docs_rest VALUES (7, 'z', 'seven'); INSERT INTO docs_rest_low VALUES (8, 'y', 'eight');
        UPDATE docs SET kind = 'a' WHERE kind = 'b'""")
    await catch_up(store)

    assert await in_step(store, db, rows=LIST_ROWS) == await db.fetchval("SELECT count(*) FROM docs")


async def test_a_new_partition_is_picked_up(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Made empty, or attached with rows in it, its rows and its direct writes are found."""
    await db.execute(RANGE)
    await attach(store)
    await catch_up(store)
    await db.execute(f"""
        CREATE TABLE docs_new PARTITION OF docs FOR VALUES FROM (1000) TO (2000);
        INSERT INTO docs_new VALUES (1001, 'unseen');
        CREATE TABLE docs_old (id int PRIMARY KEY, body text, e vector({DIMENSIONS}));
        INSERT INTO docs_old VALUES (2001, 'was there');
        ALTER TABLE docs ATTACH PARTITION docs_old FOR VALUES FROM (2000) TO (3000)""")

    await mend(store)
    await catch_up(store)
    assert await in_step(store, db) == 8
    await db.execute("INSERT INTO docs_new VALUES (1002, 'seen'); UPDATE docs_old SET body = 'edited'")
    await catch_up(store)

    assert await in_step(store, db) == 9


@pytest.mark.parametrize("end", ["ALTER TABLE docs DETACH PARTITION docs_low", "DROP TABLE docs_low"])
async def test_a_partition_that_is_taken_away_takes_its_records(
    store: PostgresStore, db: asyncpg.Connection, end: str
) -> None:
    """Its records go, its vectors stay where they are, and it has no triggers any more."""
    await db.execute(RANGE)
    await attach(store)
    await catch_up(store)

    await db.execute(end)
    await mend(store)
    await catch_up(store)

    assert await in_step(store, db) == 4
    if "DETACH" in end:
        assert await db.fetchval("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'docs_low'::regclass") == 0
        assert await db.fetchval("SELECT count(*) FROM docs_low WHERE e IS NOT NULL") == 2
        await db.execute("UPDATE docs_low SET body = 'nobody looks'")
        assert await catch_up(store) == 0


async def test_a_busy_partition_is_picked_up_later(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """A look does not wait for a transaction that writes into the new partition."""
    await db.execute(RANGE)
    await attach(store)
    await catch_up(store)
    await db.execute("CREATE TABLE docs_new PARTITION OF docs FOR VALUES FROM (1000) TO (2000)")
    application = await asyncpg.connect(postgres_url)
    async with application.transaction():
        await application.execute("INSERT INTO docs_new VALUES (1001, 'busy')")
        await db.execute("UPDATE docs SET body = 'edited' WHERE id = 40")
        await mend(store)
        await catch_up(store)
        assert (await records(store))["40"] == "edited"
    await application.close()

    await mend(store)
    await catch_up(store)
    assert await in_step(store, db) == 7


async def test_a_partition_cannot_be_attached_alone(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Writes through its parent would not be seen, so it is refused with that reason."""
    await db.execute(RANGE)

    with pytest.raises(Invalid, match=r"is a partition.*attach the parent"):
        await attach(store, "docs_low")


async def test_a_table_that_becomes_a_partition_is_told(store: PostgresStore, db: asyncpg.Connection) -> None:
    """What is written through its new parent cannot be seen: people are told, and told again that it is over."""
    await db.execute(RANGE)
    await db.execute(f"CREATE TABLE mine (id int PRIMARY KEY, body text, e vector({DIMENSIONS}))")
    await attach(store, "mine", name="mine")
    await catch_up(store)
    await db.execute("ALTER TABLE docs ATTACH PARTITION mine FOR VALUES FROM (5000) TO (6000)")
    await mend(store)

    assert "is a partition" in str((await one(store, "mine")).problem)
    await db.execute("INSERT INTO docs VALUES (5001, 'unseen'); ALTER TABLE docs DETACH PARTITION mine")
    await mend(store)
    await catch_up(store)
    assert (await one(store, "mine")).problem is None
    assert await records(store, "mine") == {"5001": "unseen"}


async def test_detaching_leaves_no_trigger_on_any_partition(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Also on one that is no partition any more."""
    await db.execute(RANGE)
    await attach(store)
    await db.execute("ALTER TABLE docs DETACH PARTITION docs_high")

    await store.detach("docs")

    assert await db.fetchval("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'embedq%'") == 0
