"""Whatever an application does to an attached table, records and jobs follow."""

# ruff: noqa: S608 (names of tables are put into statements here on purpose)

import io

import asyncpg
import pytest
from tests.stores.postgres.tables import (
    CREATE,
    DOCS,
    attach,
    attach_docs,
    catch_up,
    gather,
    in_step,
    left,
    one,
    records,
)

from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS

MERGE = """
MERGE INTO docs d USING (VALUES (2, 'merged'), (3, NULL), (8, 'new')) v (id, body) ON d.id = v.id
WHEN MATCHED AND v.body IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET body = v.body
WHEN NOT MATCHED THEN INSERT (id, body) VALUES (v.id, v.body)
"""
UPSERT = "ON CONFLICT (id) DO UPDATE SET body = excluded.body"
# What is written, and how many texts are then embedded.
WRITES = {
    "insert": ("INSERT INTO docs VALUES (8, 'eight'), (9, 'nine')", 2),
    "insert nothing": ("INSERT INTO docs SELECT 8, 'eight' WHERE false", 0),
    "update": ("UPDATE docs SET body = body || '!' WHERE id < 3", 2),
    "update a text to itself": ("UPDATE docs SET body = body || ''", 0),
    "update another column": ("UPDATE docs SET other = 7", 0),
    "delete": ("DELETE FROM docs WHERE id = 2", 0),
    "delete and insert": ("DELETE FROM docs WHERE id = 2; INSERT INTO docs VALUES (2, 'again')", 1),
    "truncate": ("TRUNCATE docs", 0),
    "truncate and insert": ("TRUNCATE docs; INSERT INTO docs VALUES (1, 'text 1'), (4, 'four')", 1),
    "upsert": (f"INSERT INTO docs VALUES (2, 'two'), (9, 'nine') {UPSERT}", 2),
    "upsert of the same": (f"INSERT INTO docs VALUES (2, 'text 2') {UPSERT}", 0),
    "do nothing": ("INSERT INTO docs VALUES (2, 'two') ON CONFLICT DO NOTHING", 0),
    "merge": (MERGE, 2),
    "a changed key": ("UPDATE docs SET id = 77 WHERE id = 1", 1),
    "swapped texts": ("UPDATE docs SET body = CASE id WHEN 1 THEN 'text 2' ELSE 'text 1' END WHERE id < 3", 2),
    "a CTE": ("WITH d AS (DELETE FROM docs WHERE id = 1 RETURNING *) INSERT INTO docs SELECT 8, d.body FROM d", 1),
    "a transaction": ("BEGIN; UPDATE docs SET body = 'a'; UPDATE docs SET body = 'b' || id; COMMIT", 3),
    "a rolled back transaction": ("BEGIN; UPDATE docs SET body = 'a'; INSERT INTO docs VALUES (9, 'x'); ROLLBACK", 0),
    "a rolled back savepoint": (
        "BEGIN; SAVEPOINT s; UPDATE docs SET body = 'a'; ROLLBACK TO s; UPDATE docs SET body = 'b' WHERE id < 2; END",
        1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
async def test_records_follow_a_write(store: PostgresStore, db: asyncpg.Connection, write: str) -> None:
    """Every row's record, vector and column stand for its text, and only texts that are new are embedded."""
    statement, embedded = WRITES[write]
    await attach_docs(store, db, rows=3)

    await db.execute(statement)

    assert await catch_up(store) == embedded
    assert await in_step(store, db) == await db.fetchval("SELECT count(*) FROM docs")


async def test_copied_rows_are_seen(store: PostgresStore, db: asyncpg.Connection) -> None:
    """COPY into the table is a write like any other, and one note."""
    await attach_docs(store, db)

    await db.copy_to_table(DOCS, source=io.BytesIO(b"1\tone\t\\N\t\\N\n2\ttwo\t\\N\t\\N\n"), format="text")

    assert await left(db) == {"noted": 1, "unplaced": 0}
    assert await catch_up(store) == 2
    assert await in_step(store, db) == 2


async def test_a_cascade_is_seen(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Rows that go, move or lose their text by a foreign key are followed."""
    await db.execute(f"""
        CREATE TABLE shelf (id int PRIMARY KEY);
        CREATE TABLE docs (id int PRIMARY KEY, body text, e vector({DIMENSIONS}),
          shelf int REFERENCES shelf ON DELETE CASCADE ON UPDATE CASCADE);
        INSERT INTO shelf VALUES (1), (2);
        INSERT INTO docs SELECT n, 'text ' || n, NULL, 1 + n % 2 FROM generate_series(1, 6) n""")
    await attach(store, attributes=("shelf",))
    await catch_up(store)

    await db.execute("DELETE FROM shelf WHERE id = 1; UPDATE shelf SET id = 3 WHERE id = 2")

    assert await catch_up(store) == 0
    assert await in_step(store, db) == 3
    assert {record.attributes["shelf"] for record in (await store.records("docs")).items} == {3}


async def test_other_columns_note_nothing(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A change of other columns leaves no trace, and neither does our own copying of vectors."""
    await attach_docs(store, db, rows=3)
    before = await db.fetchval("SELECT last_value FROM embedq.noted_id_seq")

    await db.execute("UPDATE docs SET other = id; UPDATE docs SET e = e")
    await gather(store)

    assert await db.fetchval("SELECT last_value FROM embedq.noted_id_seq") == before
    assert await left(db) == {"noted": 0, "unplaced": 0}


async def test_copying_vectors_notes_nothing(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Vectors that we write into the table are no change of it."""
    await db.execute(CREATE)
    await attach(store)
    await db.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, 50) n")

    await catch_up(store)

    assert await db.fetchval("SELECT last_value FROM embedq.noted_id_seq") == 1
    assert await in_step(store, db) == 50


async def test_what_is_not_committed_is_not_seen(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """An open write is followed when it is committed, however late, whatever was gathered meanwhile."""
    await attach_docs(store, db, rows=2)
    other = await asyncpg.connect(postgres_url)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("UPDATE docs SET body = 'late' WHERE id = 1")
    await db.execute("UPDATE docs SET body = 'early' WHERE id = 2")
    await catch_up(store)

    assert await records(store) == {"1": "text 1", "2": "early"}
    await transaction.commit()
    await other.close()
    await catch_up(store)
    assert await in_step(store, db) == 2


async def test_one_statement_changes_very_many_rows(store: PostgresStore, db: asyncpg.Connection) -> None:
    """One note of 50,000 keys is cut, and taken over step by step."""
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, body text)")
    await attach(store, into=None)
    await gather(store)

    await db.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, 50000) n")
    steps = await gather(store)

    assert steps >= 50
    assert (await one(store)).noted == 0
    assert (await store.counts())["docs"].pending == 50_000


async def test_two_attachments_on_one_table(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Each follows its own columns, and detaching one leaves the other."""
    await db.execute(
        f"CREATE TABLE docs (id int PRIMARY KEY, body text, title text, e vector({DIMENSIONS}), t vector({DIMENSIONS}))"
    )
    await attach(store)
    await attach(store, text=("title",), into="t", name="titles")
    await db.execute("INSERT INTO docs VALUES (1, 'body', 'title')")
    await catch_up(store)
    await db.execute("UPDATE docs SET title = 'other'")
    assert await catch_up(store) == 1

    titles = "SELECT id::text AS id, title AS text, t::text AS e FROM docs"
    assert await in_step(store, db) == 1
    assert await in_step(store, db, rows=titles, name="titles") == 1
    await store.detach("titles")
    await db.execute("UPDATE docs SET title = 'third', body = 'second'")
    await catch_up(store)
    assert await in_step(store, db) == 1
