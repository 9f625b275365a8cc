"""Detaching leaves a table as it was; a table that is renamed or altered is followed, or its trouble is told."""

# ruff: noqa: S608 (names of tables are put into statements here on purpose)

import asyncpg
import pytest
from tests.stores.postgres.tables import CREATE, attach, attach_docs, catch_up, gather, in_step, mend, one, records

from embedq.errors import NotFound
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import NOON, NOTES, done, take

# All that the catalogs know of the application's own things, and all functions and triggers of ours.
CATALOG = """
SELECT 'column' AS what, attrelid::text || '.' || attname || ' ' || format_type(atttypid, atttypmod) || attnum AS name
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = 'public'::regnamespace AND attnum > 0
UNION ALL SELECT 'trigger', tgrelid::text || '.' || tgname FROM pg_trigger
UNION ALL SELECT 'function', oid::regprocedure::text FROM pg_proc
  WHERE pronamespace IN ('public'::regnamespace, 'embedq'::regnamespace)
UNION ALL SELECT 'dependency', refobjid::text || ' ' || classid::text || ' ' || objid || deptype::text FROM pg_depend
  WHERE refobjid = 'docs'::regclass
UNION ALL SELECT 'grant', relname || relacl::text FROM pg_class
  WHERE relnamespace = 'public'::regnamespace AND relacl IS NOT NULL
UNION ALL SELECT 'left', (SELECT count(*) FROM embedq.attachment) || ' ' || (SELECT count(*) FROM embedq.noted) || ' '
  || (SELECT count(*) FROM embedq.unplaced) || ' ' || (SELECT count(*) FROM embedq.refused)
"""


async def catalog(db: asyncpg.Connection) -> set[tuple[str, str]]:
    return {(row["what"], row["name"]) for row in await db.fetch(CATALOG)}


async def test_detaching_leaves_the_table_as_it_was(store: PostgresStore, db: asyncpg.Connection) -> None:
    """No trigger, function, column, dependency or grant of ours is left; the vectors in its own column are."""
    await db.execute(CREATE)
    await db.execute(
        "INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, 5) n; INSERT INTO docs VALUES (9, '')"
    )
    before = await catalog(db)
    await attach(store, priority="CASE WHEN other = 1 THEN 'high' END")
    await catch_up(store)
    await db.execute("UPDATE docs SET body = body || '!' WHERE id = 1")
    assert await catalog(db) != before

    await store.detach("docs")

    assert await catalog(db) == before
    assert await db.fetchval("SELECT count(*) FROM docs WHERE e IS NOT NULL") == 5
    assert await store.attached() == []
    await db.execute("UPDATE docs SET body = 'free'")
    assert await gather(store) == 0
    with pytest.raises(NotFound):
        await store.records("docs")


async def test_a_table_can_be_attached_again(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Under the same name and at once, while the old records are still being removed."""
    await attach_docs(store, db, rows=3)
    await store.detach("docs")

    await attach(store, text=("body", "other"))
    await catch_up(store)
    while await store.finish():
        pass

    assert await records(store) == {str(n): f"text {n}" for n in (1, 2, 3)}
    assert await in_step(store, db) == 3
    assert set(await store.counts()) == {"docs", NOTES}


async def test_a_dropped_table_can_be_detached(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Its trouble is told, nothing else is held up by it, and detaching clears it away."""
    await attach_docs(store, db, rows=2)
    await db.execute("UPDATE docs SET body = 'edited'; DROP TABLE docs")
    await mend(store)

    assert (await one(store)).problem == "the table public.docs is gone: `embedq detach docs`"
    await store.detach("docs")
    assert await store.attached() == []
    assert await db.fetchval("SELECT count(*) FROM pg_proc WHERE proname ~ '^(note|read|page|place)_[0-9]'") == 0


async def test_a_lease_that_is_out_when_its_table_is_detached_harms_nobody(
    store: PostgresStore, db: asyncpg.Connection
) -> None:
    """Its answer is taken or thrown away without an error, and the table is left alone."""
    await db.execute(CREATE)
    await db.execute("INSERT INTO docs VALUES (1, 'one')")
    await attach(store)
    await gather(store)
    leases = await take(store)

    await store.detach("docs")
    await store.settle([done(lease) for lease in leases], now=NOON)

    assert await db.fetchval("SELECT e IS NULL FROM docs")
    assert await gather(store) == 0


@pytest.mark.parametrize(
    ("rename", "table"),
    [
        ("ALTER TABLE docs RENAME TO papers", "papers"),
        ("CREATE SCHEMA attic; ALTER TABLE docs SET SCHEMA attic", "attic.docs"),
        ('ALTER TABLE docs RENAME TO "x""; DROP TABLE victim; --"', '"x""; DROP TABLE victim; --"'),
        # another table under the old name must not be taken for it
        (f"ALTER TABLE docs RENAME TO papers; {CREATE}", "papers"),
    ],
)  # fmt: skip
async def test_a_renamed_table_is_followed(
    store: PostgresStore, db: asyncpg.Connection, rename: str, table: str
) -> None:
    """Changes and vectors find it under its new name, and nothing is embedded again."""
    await attach_docs(store, db, rows=2)
    await db.execute(rename)
    await db.execute(f"INSERT INTO {table} VALUES (3, 'three'); UPDATE {table} SET body = 'edited' WHERE id = 1")

    await mend(store)

    assert await catch_up(store) == 2
    assert await in_step(store, db, rows=f"SELECT id::text AS id, body AS text, e::text AS e FROM {table}") == 3
    assert (await one(store)).problem is None
    await store.detach("docs")
    assert await db.fetchval("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'embedq%'") == 0


async def test_a_renamed_column_is_told_and_heals(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Nothing is lost: writes go on, records stay, and all is found when the column has its name again."""
    await attach_docs(store, db, rows=3)
    await db.execute("ALTER TABLE docs RENAME body TO words")
    await db.execute("UPDATE docs SET words = 'edited' WHERE id = 1; DELETE FROM docs WHERE id = 2")
    await mend(store)
    assert "has no column 'body'" in str((await one(store)).problem)
    assert len(await records(store)) == 3

    await db.execute("ALTER TABLE docs RENAME words TO body")
    await mend(store)

    assert await catch_up(store) == 1
    assert await in_step(store, db) == 2
    assert (await one(store)).problem is None


async def test_a_renamed_column_can_be_attached_anew(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Detaching and attaching by the new name brings everything in step."""
    await attach_docs(store, db, rows=3)
    await db.execute("ALTER TABLE docs RENAME body TO words; UPDATE docs SET words = 'edited' WHERE id = 1")
    await gather(store)

    await store.detach("docs")
    await attach(store, text=("words",))
    await catch_up(store)

    assert await in_step(store, db, rows="SELECT id::text AS id, words AS text, e::text AS e FROM docs") == 3


async def test_a_target_that_is_gone_is_told_and_heals(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Vectors are kept by us meanwhile, and copied when the column is back, without a second embedding."""
    await attach_docs(store, db, rows=3)
    await db.execute("ALTER TABLE docs DROP e; UPDATE docs SET body = 'edited' WHERE id = 1")
    await mend(store)
    await catch_up(store)
    assert "has no column 'e'" in str((await one(store)).problem)

    await db.execute("ALTER TABLE docs ADD e vector(8)")
    await mend(store)
    assert await catch_up(store) <= 1

    assert await in_step(store, db) == 3
    assert (await one(store)).problem is None


async def test_other_changes_of_the_table_are_no_matter(store: PostgresStore, db: asyncpg.Connection) -> None:
    """New columns, indexes and types of columns that nobody named start no walk."""
    await attach_docs(store, db, rows=2)
    await db.execute("ALTER TABLE docs ADD more text, ALTER other TYPE bigint; CREATE INDEX ON docs (body)")

    await mend(store)

    assert not (await one(store)).walking
    await db.execute("INSERT INTO docs (id, body) VALUES (3, 'three')")
    await catch_up(store)
    assert await in_step(store, db) == 3
