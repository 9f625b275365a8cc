"""Keys that a collation calls equal are different ids: the old one's record goes, the new one's comes."""

# ruff: noqa: S608 (names of tables and types are put into statements here on purpose)

import asyncpg
from tests.stores.postgres.tables import attach, catch_up, in_step, mend, one, pay, records
from tests.stores.postgres.test_attach_plans import read_by

from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS

VECTOR = f"e vector({DIMENSIONS})"
ROWS = "SELECT id::text AS id, body AS text, e::text AS e FROM {}"
KINDS = {
    "docs": "text COLLATE any_case",
    "lines": "varchar(20) COLLATE any_accent",
    "padded": "char(9) COLLATE any_case",
    "domains": "word",
    "words": "citext",
    "more_words": "citext COLLATE any_accent",
}

# Statements that change the key 'Loom', or however it was written last, to one that its collation calls equal.
RENAMES = {
    "update": "UPDATE {0} SET id = 'loom' WHERE id = 'LOOM'",
    "upsert": "INSERT INTO {0} VALUES ('LOOM', 'b') ON CONFLICT (id) DO UPDATE SET id = excluded.id",
    "upsert of the text": "INSERT INTO {0} VALUES ('lOOm', 'B') ON CONFLICT (id) DO UPDATE SET body = excluded.body",
    "merge": "MERGE INTO {0} d USING (VALUES ('looM', 'c'), ('New', 'd')) v (id, body) ON d.id = v.id::{1} "
    "WHEN MATCHED THEN UPDATE SET id = v.id WHEN NOT MATCHED THEN INSERT (id, body) VALUES (v.id, v.body)",
    "in two steps": "BEGIN; DELETE FROM {0} WHERE id = 'LOOM'; INSERT INTO {0} VALUES ('LooM', 'e'); COMMIT",
    "twice": "BEGIN; UPDATE {0} SET id = upper(id); UPDATE {0} SET id = lower(id); COMMIT",
    "with its text": "UPDATE {0} SET id = 'Loom', body = 'E' WHERE id = 'loom'",
    "replicated": "SET session_replication_role = replica; UPDATE {0} SET id = upper(id)",
}


async def test_a_key_that_is_renamed(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Whatever statement does it, the record of the old writing goes and that of the new one comes."""
    await db.execute("CREATE DOMAIN word AS text COLLATE any_case")
    for table, kind in KINDS.items():
        await db.execute(f"CREATE TABLE {table} (id {kind} PRIMARY KEY, body text, {VECTOR})")
        await db.execute(f"INSERT INTO {table} VALUES ('Loom', 'a'), ('other', 'A')")
        await attach(store, table, name=table)
    await catch_up(store)

    for rename in RENAMES.values():
        for table, kind in KINDS.items():
            await db.execute(rename.format(table, kind.split(" COLLATE")[0]))
        await catch_up(store)
        for table in KINDS:
            assert await in_step(store, db, rows=ROWS.format(table), name=table) >= 2

    assert {frozenset(await records(store, table)) for table in KINDS} == {frozenset(("LOOM", "NEW", "OTHER"))}


async def test_a_renamed_key_costs_nothing(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The vector goes with the row."""
    await db.execute(f"CREATE TABLE docs (id text COLLATE any_case PRIMARY KEY, body text, {VECTOR})")
    await db.execute("INSERT INTO docs VALUES ('Loom', 'a'), ('Other', 'b')")
    await attach(store)
    await catch_up(store)

    await db.execute("UPDATE docs SET id = lower(id)")

    assert await pay(store) == set()
    assert await in_step(store, db) == 2


async def test_a_key_of_several_columns(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Each column is compared by its own collation to find the row, and by its bytes to tell whether it is the one."""
    columns = f"shop text COLLATE any_accent, sku citext COLLATE any_case, n int, body text, {VECTOR}"
    rows = "SELECT jsonb_build_array(shop, n::text, sku)::text AS id, body AS text, e::text AS e FROM docs"
    await db.execute(f"CREATE TABLE docs ({columns}, PRIMARY KEY (shop, n, sku))")
    await db.execute("INSERT INTO docs SELECT 'Café', 'Sku', n, 'text ' || n FROM generate_series(1, 9) n")
    await attach(store, key=("shop", "n", "sku"))
    await catch_up(store)

    await db.execute("UPDATE docs SET shop = 'CAFE' WHERE n < 4; UPDATE docs SET sku = 'SKU' WHERE n BETWEEN 3 AND 6")
    await db.execute("DELETE FROM docs WHERE shop = 'cafe' AND n = 9")
    await catch_up(store)

    assert await in_step(store, db, rows=rows) == 8


async def test_rows_that_only_the_index_tells_apart(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Where the unique index has another collation than the column, each row is a record, and is followed."""
    await db.execute(f"CREATE TABLE docs (id text COLLATE any_case NOT NULL, body text, {VECTOR})")
    await db.execute('CREATE UNIQUE INDEX ON docs (id COLLATE "C")')
    await db.execute("INSERT INTO docs VALUES ('Loom', 'a'), ('loom', 'b'), ('LOOM', 'c')")
    await attach(store)
    await catch_up(store)

    await db.execute("""UPDATE docs SET body = 'edited' WHERE id = 'loom' COLLATE "C" """)
    await db.execute("""DELETE FROM docs WHERE id = 'LOOM' COLLATE "C" """)
    await catch_up(store)

    assert await in_step(store, db) == 2
    assert await records(store) == {"Loom": "a", "loom": "edited"}


ORDERS = ("text COLLATE any_accent", "text COLLATE any_mark", "text COLLATE german", "citext")
WORDS = [*"aÄBéeZ-ß名ÆŒIi", "ab", "z-1", "z1", "zz", "ss", "ae", "co-op", "coop"]


async def test_a_walk_in_the_order_of_a_collation(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Pages of a few rows show each row once, though its bytes are in another order."""
    keys = {f"docs_{place}": ("id",) for place in range(len(ORDERS))}
    keys |= {f"pairs_{place}": ("id", "n") for place in range(len(ORDERS))}
    for table, key in keys.items():
        kind = ORDERS[int(table[-1])]
        await db.execute(f"CREATE TABLE {table} (id {kind}, n int, body text, PRIMARY KEY ({', '.join(key)}))")
        await db.execute(
            f"INSERT INTO {table} SELECT u, n, 'text' FROM unnest($1::{kind.split()[0]}[]) u, generate_series(1, 3) n "
            "ON CONFLICT DO NOTHING",
            WORDS,
        )
        await attach(store, table, key=key, into=None, name=table)
    while await store.gather(limit=2):
        pass

    for table in keys:
        rows = await db.fetchval(f"SELECT count(*) FROM {table}")
        assert (table, (await one(store, table)).seen, len(await records(store, table))) == (table, rows, rows)


async def test_a_change_of_few_rows_reads_few_rows(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A row is found by the key's index, whatever that calls equal."""
    await db.execute(f"CREATE TABLE docs (id text COLLATE any_case PRIMARY KEY, body text, {VECTOR})")
    await attach(store)
    await db.execute("INSERT INTO docs SELECT 'Key ' || n, 'text' FROM generate_series(1, 2000) n")
    await catch_up(store)
    await db.execute("UPDATE docs SET id = lower(id), body = 'edited' WHERE id = 'KEY 77'")

    async def follow() -> None:
        assert await catch_up(store) == 1

    read = await read_by(store, db, follow())

    assert 0 < read["docs"] < 100


async def test_a_type_that_is_moved(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Functions that call a key's type and operators by their old names are written anew."""
    await db.execute("CREATE DOMAIN word AS citext")
    for table, kind in (("docs", "citext"), ("words", "word")):
        await db.execute(f"CREATE TABLE {table} (id {kind} PRIMARY KEY, body text, {VECTOR})")
        await db.execute(f"INSERT INTO {table} VALUES ('Loom', 'one')")
        await attach(store, table, name=table)
    await catch_up(store)

    await db.execute("CREATE SCHEMA types; ALTER EXTENSION citext SET SCHEMA types")
    await db.execute("UPDATE docs SET id = 'loom'; UPDATE words SET id = 'LOOM'")
    await mend(store)
    await catch_up(store)

    for table in ("docs", "words"):
        assert await in_step(store, db, rows=ROWS.format(table), name=table) == 1
        assert (await one(store, table)).problem is None
