"""What happens between two looks at a table's shape is noticed by the next one."""

# ruff: noqa: S608 (names of tables are put into statements here on purpose)

import asyncpg
import pytest
from tests.stores.postgres.tables import attach, attach_docs, catch_up, in_step, mend, one

from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS

NESTED = f"""
CREATE TABLE docs (id int PRIMARY KEY, body text, e vector({DIMENSIONS})) PARTITION BY RANGE (id);
CREATE TABLE docs_low PARTITION OF docs FOR VALUES FROM (MINVALUE) TO (100) PARTITION BY RANGE (id);
CREATE TABLE docs_lowest PARTITION OF docs_low FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE docs_high PARTITION OF docs FOR VALUES FROM (100) TO (1000);
INSERT INTO docs SELECT n * 40, 'text ' || n FROM generate_series(1, 6) n;
"""
AWAY = {
    "a partition": (
        "docs DETACH PARTITION docs_high", "docs ATTACH PARTITION docs_high FOR VALUES FROM (100) TO (1000)"
    ),
    "a partition with partitions": (
        "docs DETACH PARTITION docs_low", "docs ATTACH PARTITION docs_low FOR VALUES FROM (MINVALUE) TO (100)"
    ),
    "a partition of a partition": (
        "docs_low DETACH PARTITION docs_lowest",
        "docs_low ATTACH PARTITION docs_lowest FOR VALUES FROM (MINVALUE) TO (100)",
    ),
}  # fmt: skip
EDIT = """
UPDATE docs_high SET body = body || '!'; UPDATE docs_lowest SET body = body || '?';
INSERT INTO docs_high VALUES (999, 'new'); INSERT INTO docs_lowest VALUES (9, 'new');
DELETE FROM docs_high WHERE id = 160
"""


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize(("out", "back"), AWAY.values(), ids=list(AWAY))
async def test_a_partition_that_was_away_is_walked(
    store: PostgresStore, db: asyncpg.Connection, out: str, back: str, *, looked: bool
) -> None:
    """Detached, edited and attached again between two looks, its rows are followed, also if notes were taken then."""
    await db.execute(NESTED)
    await attach(store)
    await catch_up(store)

    await db.execute(f"ALTER TABLE {out}")
    await db.execute(EDIT)
    if looked:
        await catch_up(store)  # its rows are not in the table now
    await db.execute(f"ALTER TABLE {back}")
    await mend(store)
    await catch_up(store)

    assert await in_step(store, db) == 7


async def test_triggers_that_slept_between_two_looks(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Disabled, passed by and enabled again, as tools for restoring do: the table is walked, and all fire as before."""
    await attach_docs(store, db, rows=3)
    fires = "SELECT array_agg(tgenabled::text ORDER BY tgname) FROM pg_trigger WHERE tgrelid = 'docs'::regclass"
    before = await db.fetchval(fires)
    await db.execute("""
        ALTER TABLE docs DISABLE TRIGGER ALL; UPDATE docs SET body = 'edited' WHERE id = 1;
        DELETE FROM docs WHERE id = 2; ALTER TABLE docs ENABLE TRIGGER ALL""")
    assert await db.fetchval(fires) != before

    await mend(store)

    assert await catch_up(store) == 1
    assert await in_step(store, db) == 2
    assert await db.fetchval(fires) == before


async def test_triggers_that_sleep_are_told_of(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Nobody enables what an application has disabled."""
    await attach_docs(store, db, rows=1)
    await db.execute("ALTER TABLE docs DISABLE TRIGGER ALL")

    await mend(store)

    assert "ENABLE TRIGGER ALL" in str((await one(store)).problem)
    await db.execute("ALTER TABLE docs ENABLE TRIGGER ALL; UPDATE docs SET body = 'edited'")
    await mend(store)
    await catch_up(store)
    assert (await one(store)).problem is None
    assert await in_step(store, db) == 1


async def test_a_look_at_an_unchanged_table_walks_nothing(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Neither its upkeep by the server nor our own copying is a change of shape."""
    await db.execute(NESTED)
    await attach(store)
    await catch_up(store)
    for table in ("docs", "pg_trigger", "pg_inherits"):
        await db.execute(f"VACUUM (FREEZE, ANALYZE) {table}")

    store._check_at = 0.0
    assert await store.gather() == 0
    assert not (await one(store)).walking
