"""Tables that change under our eyes: what cannot be seen by triggers is seen by the table's shape."""

from typing import Any

import asyncpg
import pytest
from tests.stores.postgres.tables import (
    CREATE,
    attach,
    attach_docs,
    catch_up,
    found_again,
    gather,
    in_step,
    left,
    mend,
    one,
    records,
)

from embedq.stores.postgres import PostgresStore
from embedq.stores.postgres.attaching import shape_changes
from embedq.testing.stores.stage import embed_all

REWRITES = {
    "a column put in its place": """
        ALTER TABLE docs ADD fresh text; UPDATE docs SET fresh = 'new ' || id;
        ALTER TABLE docs DROP body; ALTER TABLE docs RENAME fresh TO body""",
    "another type, computed": "ALTER TABLE docs ALTER body TYPE text USING upper(body)",
    "another key, computed": "ALTER TABLE docs ALTER id TYPE int USING id + 100",
    "another target": "ALTER TABLE docs DROP e, ADD e vector(8)",
}


@pytest.mark.parametrize("statement", REWRITES.values(), ids=list(REWRITES))
async def test_a_rewritten_table_is_walked(store: PostgresStore, db: asyncpg.Connection, statement: str) -> None:
    """No trigger fires for it."""
    await attach_docs(store, db, 5)
    await db.execute(statement)
    await mend(store)
    await catch_up(store)

    assert await in_step(store, db) == 5


async def test_two_columns_that_swap_their_names(store: PostgresStore, db: asyncpg.Connection) -> None:
    """They are of the same type, and yet others."""
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, body text, other text, e vector(8))")
    await db.execute("INSERT INTO docs VALUES (1, 'one', 'two')")
    await attach(store)
    await catch_up(store)
    await db.execute("""
        ALTER TABLE docs RENAME body TO third; ALTER TABLE docs RENAME other TO body;
        ALTER TABLE docs RENAME third TO other""")
    await mend(store)
    await catch_up(store)

    assert await records(store) == {"1": "two"}


async def test_a_renamed_word_of_an_enum(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The rows are the same, their texts are not."""
    await db.execute("CREATE TYPE mood AS ENUM ('glad', 'sad'); CREATE TABLE docs (id int PRIMARY KEY, body mood)")
    await db.execute("INSERT INTO docs VALUES (1, 'glad')")
    await attach(store, into=None)
    await catch_up(store)
    await db.execute("ALTER TYPE mood RENAME VALUE 'glad' TO 'happy'")
    await mend(store)
    await catch_up(store)

    assert await records(store) == {"1": "happy"}


@pytest.mark.parametrize("renamed", ["COLLATION plain RENAME TO simple", "DOMAIN word RENAME TO term"])
async def test_names_that_a_key_is_made_of(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str, renamed: str
) -> None:
    """Functions that call its collation or its type by the old name are written anew; a new session knows no other."""
    await db.execute("CREATE COLLATION plain (provider = libc, locale = 'C'); CREATE DOMAIN word AS text COLLATE plain")
    await db.execute("CREATE TABLE docs (id word PRIMARY KEY, body text, e vector(8))")
    await db.execute("INSERT INTO docs VALUES ('a', 'one')")
    await attach(store)
    await catch_up(store)

    await db.execute(f"ALTER {renamed}; UPDATE docs SET body = 'two'")  # noqa: S608 ours
    other = await PostgresStore.open(postgres_url)
    await mend(other)
    await catch_up(other)

    assert await in_step(other, db) == 1
    assert (await one(other)).problem is None
    await other.close()


@pytest.mark.parametrize("partitioned", ["", "PARTITION BY RANGE (id)"])
async def test_an_index_that_is_made_anew(store: PostgresStore, db: asyncpg.Connection, partitioned: str) -> None:
    """Rows that a damaged index did not find were taken for gone: when it is whole again they are looked for."""
    await db.execute(f"CREATE TABLE docs (id int PRIMARY KEY, body text, e vector(8)) {partitioned}")
    if partitioned:
        await db.execute("CREATE TABLE docs_1 PARTITION OF docs DEFAULT")
    await db.execute("INSERT INTO docs VALUES (1, 'one'), (2, 'two')")
    await attach(store)
    await catch_up(store)
    await db.execute(
        "SET search_path = embedq, public; SELECT let_go(c, '{1}', NULL) FROM collection c WHERE name = 'docs'"
    )
    await mend(store)
    assert await records(store) == {"2": "two"}

    await db.execute("REINDEX TABLE public.docs")
    await mend(store)
    await catch_up(store)

    assert await in_step(store, db) == 2


async def test_ids_of_the_key_that_was_are_let_go(store: PostgresStore, db: asyncpg.Connection) -> None:
    """An id that cannot be a key any more has no row."""
    await db.execute("CREATE TABLE docs (id text PRIMARY KEY, body text)")
    await db.execute("INSERT INTO docs SELECT 'a' || n, 'text ' || n FROM generate_series(1, 9) n")
    await attach(store, into=None)
    await catch_up(store)
    await db.execute("ALTER TABLE docs ALTER id TYPE int USING substr(id, 2)::int; DELETE FROM docs WHERE id > 2")
    await mend(store)
    await catch_up(store)

    assert await records(store) == {"1": "text 1", "2": "text 2"}
    assert (await one(store)).refusals == 0


async def test_a_lost_index_is_told(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A key that may name two rows names none."""
    await attach_docs(store, db, 1)
    await db.execute("ALTER TABLE docs DROP CONSTRAINT docs_pkey")
    await mend(store)
    assert "no unique index" in str((await one(store)).problem)

    await db.execute("ALTER TABLE docs ADD PRIMARY KEY (id)")
    await mend(store)
    assert (await one(store)).problem is None


async def test_an_heir_is_told(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Its rows are seen through the table, but not its changes."""
    await attach_docs(store, db, 1)
    await db.execute("CREATE TABLE child () INHERITS (docs)")
    await mend(store)

    assert "inherit" in str((await one(store)).problem)


async def test_a_table_in_trouble_leaves_the_others_alone(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Its writes go on without a word, are not noted, and cost no other table a walk; once mended it is walked."""
    await attach_docs(store, db, 3)
    await db.execute("CREATE TABLE others (id int PRIMARY KEY, body text, e vector(8))")
    await attach(store, "others", name="others")
    await catch_up(store)
    await db.execute("ALTER TABLE docs RENAME body TO words")
    await mend(store)
    warnings: list[object] = []
    db.add_log_listener(lambda _, message: warnings.append(message))

    before = await db.fetchval("SELECT last_value FROM embedq.unnoted")
    await db.execute("UPDATE docs SET words = 'edited'; INSERT INTO docs VALUES (9, 'new')")

    assert "has no column 'body'" in str((await one(store)).problem)
    assert await db.fetchval("SELECT last_value FROM embedq.unnoted") == before
    assert warnings == []
    await db.execute("ALTER TABLE docs RENAME words TO body")
    await mend(store)
    await catch_up(store)
    assert await in_step(store, db) == 4


async def test_a_walk_that_waits_for_another_server_is_forgotten(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A restored database waits for no transaction of the server it came from."""
    await attach_docs(store, db, 2)
    await db.execute("UPDATE embedq.attachment SET walk_after = '99999999999'::xid8, shape = NULL")
    await mend(store)
    await found_again(store)

    assert await in_step(store, db) == 2


async def test_slow_rows_do_not_hold_up_a_settle(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Vectors are stored at once, and copied as fast as the table takes them."""
    await attach_docs(store, db, 0)
    await db.execute("""
        CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_sleep(0.05); RETURN NEW; END $$;
        CREATE TRIGGER slow BEFORE UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION dawdle()""")
    await db.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, 100) n")
    await gather(store)
    assert await embed_all(store) == 100
    assert 0 < (await left(db))["unplaced"] < 100

    await catch_up(store)

    assert await in_step(store, db) == 100


async def test_what_a_trigger_changes_beside_the_vector_is_followed(
    store: PostgresStore, db: asyncpg.Connection
) -> None:
    """Storing a vector is an UPDATE, and many tables note when they were changed."""
    await db.execute(CREATE)
    await db.execute("""
        CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN NEW.other := coalesce(OLD.other, 0) + 1; RETURN NEW; END $$;
        CREATE TRIGGER touch BEFORE UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION touch();
        INSERT INTO docs VALUES (1, 'one')""")
    await attach(store, attributes=("other",))
    await catch_up(store)

    [record] = (await store.records("docs")).items
    assert record.attributes == {"other": await db.fetchval("SELECT other FROM docs")}
    assert await in_step(store, db) == 1


async def test_who_wrote_while_nobody_looked_is_waited_for(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """A table that is followed again may have a writer whose change was not noted and is not committed yet."""
    await attach_docs(store, db, 2)
    await db.execute("ALTER TABLE docs RENAME body TO words")
    await mend(store)
    await db.execute("ALTER TABLE docs RENAME words TO body")
    writer = await asyncpg.connect(postgres_url)
    transaction = writer.transaction()
    await transaction.start()
    await writer.execute("UPDATE docs SET body = 'in flight' WHERE id = 1")
    await mend(store)
    await catch_up(store)
    assert (await store.counts())["docs"].pending > 0

    await transaction.commit()
    await writer.close()
    await found_again(store)

    assert await in_step(store, db) == 2


async def test_a_table_that_cannot_be_mended_leaves_the_others_alone(
    store: PostgresStore, db: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, and tried again; the next one has its turn."""
    await attach_docs(store, db, 1)
    await db.execute("CREATE TABLE others (id int PRIMARY KEY, body text); INSERT INTO others VALUES (1, 'one')")
    await attach(store, "others", name="others", into=None)
    await catch_up(store)
    await db.execute("ALTER TABLE docs RENAME TO papers; ALTER TABLE others RENAME TO rest")
    check_table = shape_changes.check_table

    async def refuse(connection: asyncpg.Connection, oid: int, *more: Any) -> Any:  # noqa: ANN401 as it comes
        if await connection.fetchval("SELECT $1::oid = 'public.papers'::regclass", oid):
            raise asyncpg.InsufficientPrivilegeError("must be owner of table papers")
        return await check_table(connection, oid, *more)

    monkeypatch.setattr(shape_changes, "check_table", refuse)
    await mend(store)
    assert "must be owner" in str((await one(store)).problem)
    assert (await one(store, "others")).problem is None

    monkeypatch.undo()
    await mend(store)
    assert (await one(store)).problem is None
    assert await in_step(store, db, rows="SELECT id::text AS id, body AS text, e::text AS e FROM papers") == 1
