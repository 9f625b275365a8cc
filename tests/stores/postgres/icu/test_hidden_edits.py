"""Edits that a collation hides are edits: records and vectors are those of the bytes, whoever wrote them and how."""

# ruff: noqa: S608 (names of tables and types are put into statements here on purpose)

import asyncpg
import pytest
from tests.stores.postgres.tables import attach, catch_up, gather, in_step, mend, records

from embedq.model import Query
from embedq.policy.filters import read_filter
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS, vector_of

VECTOR = f"e vector({DIMENSIONS})"
ROWS = "SELECT id::text AS id, body::text AS text, e::text AS e FROM {}"
KINDS = {
    "docs": "text COLLATE any_accent",
    "lines": "varchar COLLATE any_accent",
    "words": "citext",
    "more_words": "citext COLLATE any_accent",
}
LONG = "repeat('Loom ', 20000)"  # stored beside its row

# Statements that change the text of row 1 to one that its collation calls equal.
EDITS = {
    "update": "UPDATE {0} SET body = 'loom' WHERE id = 1",
    "accents": "UPDATE {0} SET body = 'Lôom' WHERE id = 1",
    "other writing of accents": "UPDATE {0} SET body = normalize(body, NFD) WHERE id = 1",
    "swap": "UPDATE {0} SET body = CASE id WHEN 1 THEN 'looM' ELSE 'LooM' END WHERE id < 3",
    "upsert": "INSERT INTO {0} VALUES (1, 'LOOM') ON CONFLICT (id) DO UPDATE SET body = excluded.body",
    "merge": "MERGE INTO {0} d USING (VALUES (1, 'Loom'), (4, 'LOOM')) v (id, body) ON d.id = v.id "
    "WHEN MATCHED THEN UPDATE SET body = v.body WHEN NOT MATCHED THEN INSERT (id, body) VALUES (v.id, v.body)",
    "in two steps": "BEGIN; DELETE FROM {0} WHERE id = 1; INSERT INTO {0} VALUES (1, 'lOOm'); COMMIT",
    "twice": "BEGIN; UPDATE {0} SET body = 'LOom' WHERE id = 1; UPDATE {0} SET body = 'loOM'; COMMIT",
    "to a long one": f"UPDATE {{0}} SET body = {LONG} WHERE id = 1",
    "of a long one": "UPDATE {0} SET body = upper(body) WHERE id = 1",
    "from a long one": "UPDATE {0} SET body = 'Loom'",
    "replicated": "SET session_replication_role = replica; UPDATE {0} SET body = 'LOOm' WHERE id = 1",
}


async def test_a_text(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Record, vector and the row's own column follow every statement that writes other bytes."""
    for table, kind in KINDS.items():
        await db.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, body {kind}, {VECTOR})")
        await db.execute(f"INSERT INTO {table} VALUES (1, 'Loom'), (2, 'loom'), (3, 'other')")
        await attach(store, table, name=table)
    await catch_up(store)

    for name, edit in EDITS.items():
        before = {table: (await records(store, table))["1"] for table in KINDS}
        for table in KINDS:
            await db.execute(edit.format(table))
        await catch_up(store)
        kept = [table for table, text in before.items() if (await records(store, table))["1"] == text]
        assert (name, kept) == (name, [])
        for table in KINDS:
            assert await in_step(store, db, rows=ROWS.format(table), name=table) >= 3


async def test_a_copied_file(store: PostgresStore, db: asyncpg.Connection) -> None:
    """COPY brings rows whose texts their collation calls equal to those that were there."""
    await db.execute(f"CREATE TABLE docs (id int PRIMARY KEY, body text COLLATE any_case, {VECTOR})")
    await db.execute("INSERT INTO docs VALUES (1, 'Loom'), (2, 'Loom')")
    await attach(store)
    await catch_up(store)

    async with db.transaction():
        await db.execute("TRUNCATE docs")
        await db.copy_records_to_table("docs", records=[(1, "loom"), (2, "LOOM")], columns=["id", "body"])
    await catch_up(store)

    assert await in_step(store, db) == 2
    assert await records(store) == {"1": "loom", "2": "LOOM"}


@pytest.mark.parametrize("kind", ["text COLLATE any_case", "citext"])
async def test_attributes_and_tenant(store: PostgresStore, db: asyncpg.Connection, kind: str) -> None:
    """Both are those of the bytes: who asks for what was finds nothing any more, and nobody pays."""
    await db.execute(f"CREATE TABLE docs (id int PRIMARY KEY, body text, kind {kind}, shop {kind}, {VECTOR})")
    await db.execute("INSERT INTO docs VALUES (1, 'loom', 'Tool', 'North'), (2, 'shuttle', 'Tool', 'North')")
    await attach(store, attributes=("kind",), tenant="shop")
    await catch_up(store)

    await db.execute("UPDATE docs SET kind = 'tool' WHERE id = 1; UPDATE docs SET shop = 'north' WHERE id = 2")
    assert await catch_up(store) == 0

    async def found(query: Query) -> list[str]:
        return [str(hit.id) for hit in await store.search_vector("docs", vector_of("loom"), query)]

    assert await found(Query(k=5, filter=read_filter({"kind": "tool"}))) == ["1"]
    assert await found(Query(k=5, filter=read_filter({"kind": "Tool"}))) == ["2"]
    assert await found(Query(k=5, tenant="north")) == ["2"]
    assert await found(Query(k=5, tenant="North")) == ["1"]


BOUNDS = {
    "HASH (id)": ("WITH (modulus 2, remainder 0)", "WITH (modulus 2, remainder 1)"),
    "RANGE (id)": ("FROM (MINVALUE) TO ('l')", "FROM ('l') TO (MAXVALUE)"),
}


@pytest.mark.parametrize("way", BOUNDS)
async def test_partitions(store: PostgresStore, db: asyncpg.Connection, way: str) -> None:
    """Edits and renamed keys are noted through the parent and in the partition itself."""
    columns = f"id text COLLATE any_case PRIMARY KEY, body text COLLATE any_case, {VECTOR}"
    await db.execute(f"CREATE TABLE docs ({columns}) PARTITION BY {way}")
    for number, bound in enumerate(BOUNDS[way]):
        await db.execute(f"CREATE TABLE docs_{number} PARTITION OF docs FOR VALUES {bound}")
    await db.execute("INSERT INTO docs SELECT chr(97 + n) || 'X', 'Text ' || n FROM generate_series(0, 19) n")
    await attach(store)
    await catch_up(store)

    await db.execute("UPDATE docs SET body = lower(body) WHERE id < 'f'; UPDATE docs SET id = lower(id) WHERE id > 'r'")
    await db.execute("UPDATE docs_0 SET body = upper(body); UPDATE docs_1 SET id = upper(id)")
    await catch_up(store)

    assert await in_step(store, db) == 20


async def test_a_walk_finds_what_nobody_noted(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Texts and keys that changed while triggers were disabled are compared by their bytes too."""
    await db.execute(f"CREATE TABLE docs (id text COLLATE any_case PRIMARY KEY, body text COLLATE any_case, {VECTOR})")
    await db.execute("INSERT INTO docs SELECT 'Key ' || n, 'Text ' || n FROM generate_series(1, 9) n")
    await attach(store)
    await catch_up(store)

    await db.execute("ALTER TABLE docs DISABLE TRIGGER ALL")
    await db.execute("UPDATE docs SET body = lower(body) WHERE id < 'key 4'")
    await db.execute("UPDATE docs SET id = upper(id) WHERE id > 'key 6'")
    await db.execute("ALTER TABLE docs ENABLE TRIGGER ALL")
    assert await gather(store) == 0
    await mend(store)
    await catch_up(store)

    assert await in_step(store, db) == 9


async def test_what_an_application_writes_into_the_target(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The vector of a row is put back, and not that of another row whose key the column calls equal."""
    await db.execute(
        f"CREATE TABLE docs (id text COLLATE any_case NOT NULL, body text COLLATE any_case, {VECTOR}, n int)"
    )
    await db.execute('CREATE UNIQUE INDEX ON docs (id COLLATE "C")')
    await db.execute("INSERT INTO docs VALUES ('Loom', 'One', NULL, 1), ('loom', 'one', NULL, 2)")
    await attach(store)
    await catch_up(store)

    await db.execute("UPDATE docs SET e = (SELECT o.e FROM docs o WHERE o.n = 1) WHERE n = 2")
    await db.execute("UPDATE docs SET e = NULL WHERE n = 1")
    assert await catch_up(store) == 0

    assert await in_step(store, db) == 2


async def test_what_a_trigger_changes_when_a_vector_is_stored(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A tenant that it writes in another case is another tenant."""
    await db.execute(f"CREATE TABLE docs (id int PRIMARY KEY, body text, shop text COLLATE any_case, {VECTOR})")
    await db.execute("""
        CREATE FUNCTION lower_shop() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN NEW.shop := lower(NEW.shop); RETURN NEW; END $$;
        CREATE TRIGGER lower_shop BEFORE UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION lower_shop();
        INSERT INTO docs VALUES (1, 'loom', 'North')""")
    await attach(store, tenant="shop")
    await catch_up(store)

    [record] = (await store.records("docs")).items
    assert record.tenant == "north"
    assert await in_step(store, db) == 1


async def test_a_collation_that_comes_later(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A column that is given one that hides edits is followed as before."""
    await db.execute(f"CREATE TABLE docs (id text PRIMARY KEY, body text, {VECTOR})")
    await db.execute("INSERT INTO docs VALUES ('a', 'Loom'), ('b', 'Loom')")
    await attach(store)
    await catch_up(store)

    await db.execute("ALTER TABLE docs ALTER id TYPE text COLLATE any_case, ALTER body TYPE text COLLATE any_case")
    await mend(store)
    await db.execute("UPDATE docs SET body = 'loom' WHERE id = 'A'; UPDATE docs SET id = 'B' WHERE id = 'B'")
    await catch_up(store)

    assert await in_step(store, db) == 2
    assert await records(store) == {"a": "loom", "B": "Loom"}
