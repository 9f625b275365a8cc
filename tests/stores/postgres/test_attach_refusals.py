"""What does not fit is refused with a reason, and then nothing is changed."""

# ruff: noqa: S608 (names of tables are put into statements here on purpose)

import asyncio
from typing import Any

import asyncpg
import pytest
from tests.stores.postgres.tables import CREATE, attach, attach_docs, catch_up, mend, one, records

from embedq.attachment import Attachment
from embedq.errors import Conflict, EmbedqError, Invalid, NotFound, StoreError
from embedq.model import EmbedderName, NewRecord, Patch, RecordId
from embedq.stores.postgres import PostgresStore
from embedq.stores.postgres.attaching import attaching
from embedq.stores.postgres.attaching.source import inspect_table
from embedq.testing.stores.stage import DIMENSIONS, NOTES, declaration

E = f"e vector({DIMENSIONS})"
UNKEYED = f"CREATE TABLE docs (id int NOT NULL, body text, {E})"
WRAPPER = "CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w"
SPLIT = f"CREATE TABLE docs (id int, body text, {E}) PARTITION BY RANGE (id); {WRAPPER}"
OURS = {"table": "embedq.record", "key": ["rid"], "text": ["text"], "into": None}
SYSTEM = {"table": "pg_catalog.pg_class", "key": ["oid"], "text": ["relname"], "into": None}


def keyed(key: str, more: str = E) -> str:
    """Make a table with this key."""
    return f"CREATE TABLE docs (id {key}, body text, {more})"


# How the table is made, how it is attached, and what is said.
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "no such column": (CREATE, {"text": ["words"]}, "has no column 'words'; it has id, body, other, e"),
    "no such key": (CREATE, {"key": ["nr"]}, "has no column 'nr'"),
    "no such attribute": (CREATE, {"attributes": ("colour",)}, "has no column 'colour'"),
    "no such tenant": (CREATE, {"tenant": "owner"}, "has no column 'owner'"),
    "a dropped column": (f"{CREATE}; ALTER TABLE docs DROP body", {}, "has no column 'body'"),
    "a system column": (CREATE, {"text": ["ctid"]}, "has no column 'ctid'"),
    "no target": (CREATE, {"into": "vec"}, r"ALTER TABLE docs ADD COLUMN \"vec\" vector\(8\)"),
    "wrong dimensions": (keyed("int PRIMARY KEY", "e vector(9)"), {}, "holds 9 numbers, this embedder gives 8"),
    "wrong type": (CREATE, {"into": "other"}, "'other' is integer: vectors go into a column of type vector"),
    "an array": (keyed("int PRIMARY KEY", "e real[]"), {}, "'e' is real"),
    "a generated target": (keyed("int PRIMARY KEY", f"{E} GENERATED ALWAYS AS (NULL) STORED"), {}, "generated"),
    "no key": (CREATE, {"key": []}, "needs one or more columns"),
    "no text": (CREATE, {"text": []}, "needs one or more columns"),
    "a key twice": (CREATE, {"key": ["id", "id"]}, "each named once"),
    "a text twice": (CREATE, {"text": ["body", "body"]}, "each named once"),
    "no unique index": (UNKEYED, {}, r"no unique index over \(id\)"),
    "an index over more": (keyed("int", f"{E}, part int, PRIMARY KEY (id, part)"), {}, "no unique index"),
    "a partial index": (f"{UNKEYED}; CREATE UNIQUE INDEX ON docs (id) WHERE id > 5", {}, "no unique index"),
    "an index by an expression": (f"{UNKEYED}; CREATE UNIQUE INDEX ON docs ((id + 0))", {}, "no unique index"),
    "an index in another order": (
        f"{keyed('text NOT NULL')}; CREATE UNIQUE INDEX ON docs (id text_pattern_ops)",
        {},
        "no unique index",
    ),
    "a key that may be NULL": (keyed("int UNIQUE"), {}, r"may not be NULL.*ALTER \"id\" SET NOT NULL"),
    "a key of money": (keyed("money PRIMARY KEY"), {}, "written otherwise in other sessions"),
    "a key of names": (keyed("regclass PRIMARY KEY"), {}, "written otherwise in other sessions"),
    "a view": ("CREATE VIEW docs AS SELECT 1 AS id, 'x' AS body", {}, "is no table"),
    "a materialized view": ("CREATE MATERIALIZED VIEW docs AS SELECT 1 AS id, 'x' AS body", {}, "is no table"),
    "an index itself": (f"{CREATE}; ALTER TABLE docs RENAME TO d; CREATE INDEX docs ON d (body)", {}, "is no table"),
    "a foreign table": (f"{WRAPPER}; CREATE FOREIGN TABLE docs (id int, body text) SERVER s", {}, "is no table"),
    "a foreign partition": (
        f"{SPLIT}; CREATE FOREIGN TABLE d PARTITION OF docs FOR VALUES FROM (1) TO (2) SERVER s",
        {},
        "foreign table",
    ),
    "a table that others inherit": (
        f"{CREATE}; CREATE TABLE child () INHERITS (docs)",
        {},
        "other tables inherit from",
    ),
    "a table that inherits": (
        f"CREATE TABLE parent (id int); CREATE TABLE docs (body text, {E}, PRIMARY KEY (id)) INHERITS (parent)",
        {},
        "docs inherits from another table",
    ),
    "read and written": (CREATE, {"text": ["e"]}, "cannot be read from and written to"),
    "an attribute that is written": (CREATE, {"attributes": ("e",)}, "cannot be read from and written to"),
    "one of ours": ("SELECT 1", OURS, "embedq's own"),
    "the system's": ("SELECT 1", SYSTEM, "system|refuses"),
}
CATALOG = """
SELECT (SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'embedq%') AS triggers,
  (SELECT count(*) FROM pg_proc WHERE proname ~ '^(note|read|page|place)_[0-9]') AS functions,
  (SELECT count(*) FROM embedq.attachment) AS attachments, (SELECT count(*) FROM embedq.collection) AS collections
"""
NOTHING = {"triggers": 0, "functions": 0, "attachments": 0, "collections": 1}


@pytest.mark.parametrize("postgres_version", [18])
@pytest.mark.parametrize("case", REFUSED)
async def test_what_does_not_fit_is_refused(store: PostgresStore, db: asyncpg.Connection, case: str) -> None:
    """The reason says what to do, and there is no collection, no trigger and no function."""
    made, options, reason = REFUSED[case]
    await db.execute(made)

    with pytest.raises(EmbedqError, match=reason):
        await attach(store, **options)

    assert dict(await db.fetchrow(CATALOG)) == NOTHING


@pytest.mark.parametrize("postgres_version", [18])
async def test_a_virtual_column_is_refused(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Triggers see nothing of it; a stored one is followed."""
    await db.execute(
        "CREATE TABLE docs (id int PRIMARY KEY, a text, v text GENERATED ALWAYS AS (upper(a)) VIRTUAL, "
        "s text GENERATED ALWAYS AS (upper(a)) STORED)"
    )
    with pytest.raises(Invalid, match=r"virtual column.*STORED"):
        await attach(store, text=["v"], into=None)

    await attach(store, text=["s"], into=None)
    await db.execute("INSERT INTO docs (id, a) VALUES (1, 'x')")
    await catch_up(store)
    await db.execute("UPDATE docs SET a = 'y'")
    await catch_up(store)
    assert await records(store) == {"1": "Y"}


async def test_a_temporary_table_is_refused(store: PostgresStore) -> None:
    """Nobody but its session could read it."""
    async with store._database.transaction() as db:
        await db.execute("CREATE TEMP TABLE passing (id int PRIMARY KEY, body text)")
        with pytest.raises(Invalid, match="temporary"):
            await inspect_table(db, Attachment(table="passing", key=("id",), text=("body",)), None)


async def test_row_security_is_refused_and_told_when_it_comes_later(postgres_url: str) -> None:
    """Rows that a policy hides are not taken for deleted."""
    db = await asyncpg.connect(postgres_url)
    role = f"worker_{postgres_url[-8:]}"
    database = await db.fetchval("SELECT current_database()")
    await db.execute(f'CREATE EXTENSION vector; CREATE ROLE "{role}" LOGIN; GRANT CREATE ON SCHEMA public TO "{role}"')
    await db.execute(f'GRANT CREATE ON DATABASE "{database}" TO "{role}"')
    await db.execute(f"SET ROLE \"{role}\"; {CREATE}; INSERT INTO docs VALUES (1, 'one'); RESET ROLE")
    worker = await PostgresStore.open(postgres_url.replace("postgres@", f"{role}@"))
    await worker.learn((await worker.declare(declaration(NOTES))).space.id, DIMENSIONS)
    try:
        await db.execute("ALTER TABLE docs ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY")
        with pytest.raises(Invalid, match="row security hides"):
            await attach(worker, into=None)
        await db.execute("ALTER TABLE docs DISABLE ROW LEVEL SECURITY")
        await attach(worker, into=None)
        await catch_up(worker)
        await db.execute("ALTER TABLE docs ENABLE ROW LEVEL SECURITY; UPDATE docs SET body = 'edited'")
        await catch_up(worker)
        assert await records(worker) == {"1": "one"}
        assert "row security hides rows" in str((await one(worker)).problem)
        await db.execute("ALTER TABLE docs DISABLE ROW LEVEL SECURITY")
        await mend(worker)
        assert (await one(worker)).problem is None
        assert await records(worker) == {"1": "edited"}
    finally:
        await worker.close()
        await db.execute(f'DROP OWNED BY "{role}" CASCADE; DROP ROLE "{role}"')
        await db.close()


async def test_a_taken_name_is_refused(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A collection with records of its own, with another embedder, or of another table stays what it is."""
    await db.execute(CREATE)
    await db.execute("CREATE TABLE others (id int PRIMARY KEY, body text, e vector(8))")
    await store.put(NOTES, [NewRecord(id=RecordId("a"), text="mine")])
    await store.declare(declaration("composed", text_from=("title",)))
    with pytest.raises(Conflict, match="records of its own"):
        await attach(store, name=NOTES)
    with pytest.raises(Conflict, match="records of its own"):
        await attach(store, name="composed")
    [composed] = [c for c in await store.collections() if c.declaration.name == "composed"]
    assert composed.declaration.text_from == ("title",)

    await attach(store)

    with pytest.raises(Conflict, match=r"attached to public\.docs"):
        await attach(store, table="others")
    other = declaration("docs", embedder=EmbedderName(provider="fake", model="other"))
    with pytest.raises(Conflict, match=r"attached to public\.docs"):
        await store.attach(other, (await one(store)).attachment, dimensions=DIMENSIONS)


async def test_nobody_else_writes_records_of_a_table(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """Put, patch, delete, drop and another declaration are conflicts, here and in a process that knew it before."""
    await db.execute(CREATE)
    other = await PostgresStore.open(postgres_url)
    await other.declare(declaration("docs"))
    await other.put("docs", [NewRecord(id=RecordId("x"), text="x")])
    await other.delete("docs", [RecordId("x")])
    await attach(store)
    await db.execute("INSERT INTO docs VALUES (1, 'one')")
    await catch_up(store)

    for mine in (store, other):
        record = RecordId("1")
        with pytest.raises(Conflict, match=r"rows of public\.docs"):
            await mine.put("docs", [NewRecord(id=record, text="no")])
        with pytest.raises(Conflict, match=r"rows of public\.docs"):
            await mine.put("docs", [NewRecord(id=record, text="no")], connection=db)
        with pytest.raises(Conflict):
            await mine.patch("docs", record, Patch(text="no"))
        with pytest.raises(Conflict):
            await mine.delete("docs", [record])
        with pytest.raises(Conflict, match="embedq detach docs"):
            await mine.drop("docs")
        with pytest.raises(Conflict):
            await mine.declare(declaration("docs", text_from=("body",)))
    await other.close()
    assert await records(store) == {"1": "one"}


async def test_a_table_in_use_is_waited_for_but_not_for_ever(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers never queue behind us: we come back, and give up with a reason and no trace."""
    await db.execute(CREATE)
    application = await asyncpg.connect(postgres_url)
    transaction = application.transaction()
    await transaction.start()
    await application.execute("INSERT INTO docs VALUES (1, 'open')")
    monkeypatch.setattr(attaching, "WAIT_SECONDS", 0.6)

    with pytest.raises(StoreError, match="in use by a transaction that does not end"):
        await attach(store)
    assert dict(await db.fetchrow(CATALOG)) == NOTHING

    monkeypatch.setattr(attaching, "WAIT_SECONDS", 20)
    attaching_now = asyncio.create_task(attach(store))
    async with asyncio.timeout(10):
        await db.execute("INSERT INTO docs VALUES (2, 'beside')")
    await transaction.commit()
    await application.close()
    await attaching_now
    await catch_up(store)
    assert await records(store) == {"1": "open", "2": "beside"}


async def test_nothing_to_detach_is_told(store: PostgresStore, db: asyncpg.Connection) -> None:
    """An unknown collection, and one that is no table."""
    with pytest.raises(NotFound, match="no table is attached as 'docs'"):
        await store.detach("docs")
    with pytest.raises(NotFound, match="no table is attached as"):
        await store.detach(NOTES)
    await attach_docs(store, db)
