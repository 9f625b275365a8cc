"""A vector is copied into its row only if it fits, and nobody waits for that."""

import asyncio
import time

import asyncpg
import pytest
from tests.stores.postgres.tables import CREATE, attach, attach_docs, catch_up, gather, in_step, left, one, written

from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import NOON, done, embed_all, retry, take

SOON = 2  # seconds: far less than anybody holds anything here
REFUSE = """
CREATE OR REPLACE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN IF {when} THEN RAISE 'no vectors on Sundays'; END IF; RETURN NEW; END $$;
"""


async def column(db: asyncpg.Connection, id_: int = 1) -> str | None:
    value: str | None = await db.fetchval("SELECT e::text FROM docs WHERE id = $1", id_)
    return value


async def test_an_edit_after_the_lease_gets_no_old_vector(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The row was edited between lease and settle: it waits for its own vector, and keeps the one it had."""
    await attach_docs(store, db, rows=1)
    await db.execute("UPDATE docs SET body = 'second'")
    await gather(store)
    leases = await take(store)
    await db.execute("UPDATE docs SET body = 'third'")

    await store.settle([done(lease) for lease in leases], now=NOON)

    assert await column(db) == written("text 1")
    await catch_up(store)
    assert await in_step(store, db) == 1


async def test_an_edit_there_and_back_loses_no_vector(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The text was another when its vector came, and is the embedded one again before anybody looked."""
    await attach_docs(store, db, rows=1)
    await db.execute("UPDATE docs SET body = 'second'")
    await gather(store)
    leases = await take(store)
    await db.execute("UPDATE docs SET body = 'third'")
    await store.settle([done(lease) for lease in leases], now=NOON)
    await db.execute("UPDATE docs SET body = 'second'")

    assert await catch_up(store) == 0

    assert await in_step(store, db) == 1


async def test_a_settle_does_not_wait_for_a_held_row(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """An application holds one row: the others have their vectors at once, that one after it is let go."""
    await attach_docs(store, db)
    await db.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, 5) n")
    await gather(store)
    leases = await take(store)
    application = await asyncpg.connect(postgres_url)
    async with application.transaction():
        await application.execute("SELECT FROM docs WHERE id = 3 FOR UPDATE")
        before = time.monotonic()
        settled = await store.settle([done(lease) for lease in leases], now=NOON)
        took = time.monotonic() - before
        await gather(store)
        assert [row["id"] for row in await db.fetch("SELECT id FROM docs WHERE e IS NULL")] == [3]
    await application.close()

    assert len(settled.jobs) == 5
    assert took < SOON
    await gather(store)
    assert await in_step(store, db) == 5


@pytest.mark.parametrize("outcome", ["all done", "one not"])
async def test_a_settle_does_not_wait_for_a_locked_table(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str, outcome: str
) -> None:
    """An ALTER TABLE in an open transaction delays vectors in the column, but no job."""
    await attach_docs(store, db)
    await db.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, 50) n")
    await gather(store)
    leases = await take(store, limit=50)
    outcomes = [done(lease) for lease in leases]
    application = await asyncpg.connect(postgres_url)
    async with application.transaction():
        await application.execute("ALTER TABLE docs ADD COLUMN more int")
        before = time.monotonic()
        await store.settle(outcomes if outcome == "all done" else [*outcomes[1:], retry(leases[0])], now=NOON)
        took = time.monotonic() - before
        await gather(store)
    await application.close()

    assert took < SOON
    assert (await left(db))["unplaced"] >= 49
    await store.settle(outcomes[:1], now=NOON)
    await catch_up(store)
    assert await db.fetchval("SELECT count(*) FROM docs WHERE e IS NOT NULL") >= 49


@pytest.mark.parametrize("trigger", ["TRIGGER", "CONSTRAINT TRIGGER"])
async def test_a_table_that_refuses_is_told_and_heals(
    store: PostgresStore, db: asyncpg.Connection, trigger: str
) -> None:
    """A user's trigger that raises on our UPDATE, at once or at the commit, stops neither settle nor other rows."""
    await attach_docs(store, db)
    moment = "BEFORE UPDATE ON docs" if trigger == "TRIGGER" else "AFTER UPDATE ON docs DEFERRABLE INITIALLY DEFERRED"
    await db.execute(REFUSE.format(when="NEW.id % 10 = 3"))
    await db.execute(f"CREATE {trigger} refuse {moment} FOR EACH ROW EXECUTE FUNCTION public.refuse()")
    await db.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, 120) n")

    assert await catch_up(store) == 120

    assert await db.fetchval("SELECT count(*) FROM docs WHERE e IS NULL AND id % 10 = 3") == 12
    assert await db.fetchval("SELECT count(*) FROM docs WHERE e IS NULL") == 12
    told = (await one(store)).problem
    assert told is not None
    assert "no vectors on Sundays" in told
    await db.execute("DROP TRIGGER refuse ON docs")
    await gather(store)
    assert (await one(store)).problem is None
    assert await in_step(store, db) == 120


async def test_a_trigger_that_changes_the_text_is_told(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The vector would stand for another text: it is not stored, and nothing is embedded again and again."""
    await db.execute(CREATE)
    await db.execute("""
        CREATE FUNCTION public.grow() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN NEW.body := NEW.body || '!'; RETURN NEW; END $$;
        CREATE TRIGGER grow BEFORE UPDATE ON docs FOR EACH ROW EXECUTE FUNCTION public.grow();
        INSERT INTO docs VALUES (1, 'one')""")
    await attach(store)

    assert await catch_up(store) == 1
    assert await catch_up(store) == 0

    assert "changes the text" in str((await one(store)).problem)
    assert await column(db) is None
    await db.execute("DROP TRIGGER grow ON docs")
    assert await catch_up(store) == 0
    assert await in_step(store, db) == 1


async def test_what_a_trigger_does_to_other_rows_is_seen(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Our copying of a vector makes the application's trigger edit another row: that is a change like any other."""
    await db.execute(CREATE)
    await db.execute("""
        CREATE FUNCTION public.log() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN UPDATE docs SET body = 'last was ' || NEW.id WHERE id = 0 AND NEW.id > 0; RETURN NULL; END $$;
        CREATE TRIGGER log AFTER UPDATE OF e ON docs FOR EACH ROW EXECUTE FUNCTION public.log();
        INSERT INTO docs VALUES (0, 'none'), (7, 'seven')""")
    await attach(store)

    await catch_up(store)
    await catch_up(store)

    assert await db.fetchval("SELECT body FROM docs WHERE id = 0") == "last was 7"
    assert await in_step(store, db) == 2


async def test_a_late_answer_reaches_the_column(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A job that was armed again while it ran, and one that is settled by itself, are copied too."""
    await attach_docs(store, db)
    await db.execute("INSERT INTO docs VALUES (1, 'one'), (2, 'two')")
    await gather(store)
    leases = await take(store)
    await store.enqueue("docs", [leases[0].record_id], force=True, now=NOON)

    await store.settle([done(lease) for lease in leases], now=NOON)
    await gather(store)

    assert [await column(db, 1), await column(db, 2)] == [written("one"), written("two")]
    await embed_all(store)
    await gather(store)
    assert await in_step(store, db) == 2


async def test_settles_and_edits_meet_without_waiting_in_a_circle(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """An application that updates many rows of one batch in reverse order is not the victim of a deadlock."""
    await attach_docs(store, db)
    await db.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, 40) n")
    await gather(store)
    leases = await take(store, limit=40)
    application = await asyncpg.connect(postgres_url)

    async def edit() -> None:
        for _ in range(10):
            async with application.transaction():
                for id_ in range(40, 0, -1):
                    await application.execute("UPDATE docs SET other = coalesce(other, 0) + 1 WHERE id = $1", id_)

    async with asyncio.timeout(30):
        editing = asyncio.create_task(edit())
        await store.settle([done(lease) for lease in leases], now=NOON)
        await editing
    await application.close()

    await gather(store)
    assert await in_step(store, db) == 40
