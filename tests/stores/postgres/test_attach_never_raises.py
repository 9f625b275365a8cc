"""A trigger never fails an application's write, nor makes it wait; what it cannot note is found by a walk."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.tables import attach_docs, catch_up, found_again, in_step, left, one

from embedq.stores.postgres import PostgresStore
from embedq.testing.postgres import PostgresServer, PostgresUnavailable
from embedq.testing.postgres.fixtures import unavailable

RAISING = """
CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE disk_full; END $$;
CREATE TRIGGER refuse BEFORE INSERT ON embedq.noted FOR EACH ROW EXECUTE FUNCTION public.refuse();
"""
# What is wrong with the place where keys are noted, and how it becomes right again.
BROKEN = {
    "a check": (
        "ALTER TABLE embedq.noted ADD CHECK (id < 0) NOT VALID",
        "ALTER TABLE embedq.noted DROP CONSTRAINT noted_id_check",
    ),
    "a full disk": (RAISING, "DROP TRIGGER refuse ON embedq.noted"),
    "no such table": ("ALTER TABLE embedq.noted RENAME TO lost", "ALTER TABLE embedq.lost RENAME TO noted"),
    "no bell": ("DROP FUNCTION embedq.ring()", "CREATE FUNCTION embedq.ring() RETURNS void LANGUAGE sql AS ''"),
}  # fmt: skip
CHANGES = (
    "INSERT INTO docs VALUES (9, 'nine'); UPDATE docs SET body = 'edited' WHERE id = 1; DELETE FROM docs WHERE id = 2"
)


@pytest.mark.parametrize("fault", BROKEN)
async def test_a_write_that_cannot_be_noted_is_found(store: PostgresStore, db: asyncpg.Connection, fault: str) -> None:
    """The write succeeds, and inserted, edited and deleted rows are found when the fault is gone."""
    broken, mended = BROKEN[fault]
    await attach_docs(store, db, rows=3)
    await db.execute(broken)

    await db.execute(CHANGES)

    await db.execute(mended)
    assert await left(db) == {"noted": 0, "unplaced": 0}
    assert await found_again(store) == 2
    assert await in_step(store, db) == 3


async def test_a_write_does_not_wait_for_who_locks_the_notes(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """Somebody holds the table of notes: the write goes on at once, and is found."""
    await attach_docs(store, db, rows=2)
    other = await asyncpg.connect(postgres_url)
    async with other.transaction():
        await other.execute("LOCK TABLE embedq.noted IN ACCESS EXCLUSIVE MODE")
        async with asyncio.timeout(5):
            await db.execute("UPDATE docs SET body = 'edited' WHERE id = 1")
    await other.close()

    assert await found_again(store) == 1
    assert await in_step(store, db) == 2


async def test_the_walk_waits_for_writers_that_could_not_note(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """A transaction that could not note and commits long after is found too, though others have been found before."""
    await attach_docs(store, db, rows=3)
    writer, holder = await asyncpg.connect(postgres_url), await asyncpg.connect(postgres_url)
    transaction = writer.transaction()
    await transaction.start()
    async with holder.transaction():
        await holder.execute("LOCK TABLE embedq.noted IN EXCLUSIVE MODE")  # which takes no transaction's number
        await writer.execute(
            "UPDATE docs SET body = 'late' WHERE id = 3"
        )  # its number is the newest: no later one ended
    await catch_up(store)
    assert await db.fetchval("SELECT walk_after FROM embedq.attachment") is not None
    await db.execute("UPDATE docs SET body = 'noted' WHERE id = 1")
    assert await catch_up(store) == 1

    await transaction.commit()
    await writer.close()
    await holder.close()

    assert await found_again(store) == 1
    assert await in_step(store, db) == 3


async def test_a_role_without_rights_can_write(store: PostgresStore, db: asyncpg.Connection, postgres_url: str) -> None:
    """An application needs nothing of the schema embedq, and sees no warning."""
    await attach_docs(store, db, rows=1)
    role = f"app_{postgres_url[-8:]}"
    await db.execute(f'CREATE ROLE "{role}"; GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON docs TO "{role}"')
    warnings: list[object] = []
    db.add_log_listener(lambda _, message: warnings.append(message))
    try:
        await db.execute(f'SET ROLE "{role}"')
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.execute("SELECT FROM embedq.noted")
        await db.execute("INSERT INTO docs VALUES (2, 'two'); UPDATE docs SET body = 'one' WHERE id = 1")
        await db.execute("DELETE FROM docs WHERE id = 2; TRUNCATE docs; INSERT INTO docs VALUES (3, 'three')")
        await db.execute("RESET ROLE")
        await catch_up(store)
        assert await in_step(store, db) == 1
        assert warnings == []
    finally:
        await db.execute(f'RESET ROLE; DROP OWNED BY "{role}"; DROP ROLE "{role}"')


async def test_a_timeout_is_not_swallowed(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Whoever limits the time of a statement gets the error, also when it strikes inside the trigger."""
    await attach_docs(store, db, rows=1)
    await db.execute("""
        CREATE FUNCTION public.dawdle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(60); END $$;
        CREATE TRIGGER dawdle BEFORE INSERT ON embedq.noted FOR EACH ROW EXECUTE FUNCTION public.dawdle()""")
    await db.execute("SET statement_timeout = '100ms'")

    with pytest.raises(asyncpg.QueryCanceledError):
        await db.execute("UPDATE docs SET body = 'edited'")

    await db.execute("SET statement_timeout = 0; DROP TRIGGER dawdle ON embedq.noted")
    assert await catch_up(store) == 0
    assert await in_step(store, db) == 1


@pytest_asyncio.fixture
async def preparing(postgres_version: int) -> AsyncIterator[str]:
    """A server where transactions can be prepared."""
    try:
        server = PostgresServer(postgres_version, fsync=False, settings={"max_prepared_transactions": "5"})
    except PostgresUnavailable as error:
        unavailable(str(error))
    await asyncio.to_thread(server.start)
    yield server.url()
    await asyncio.to_thread(server.stop, immediate=True)


@pytest.mark.parametrize("postgres_version", [18])
async def test_a_write_can_be_prepared(preparing: str) -> None:
    """Two-phase commit works: its change is followed when it is committed, and not before."""
    store = await PostgresStore.open(preparing)
    db = await asyncpg.connect(preparing)
    await attach_docs(store, db, rows=2)

    await db.execute("BEGIN; UPDATE docs SET body = 'prepared' WHERE id = 1; PREPARE TRANSACTION 'p'")

    assert await catch_up(store) == 0
    await db.execute("COMMIT PREPARED 'p'")
    assert await catch_up(store) == 1
    assert await in_step(store, db) == 2
    await db.close()
    await store.close()


async def test_triggers_can_be_switched_off_and_on(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A bulk load past the triggers is told while they sleep, and found by a walk when they are back."""
    await attach_docs(store, db, rows=1)
    await db.execute("ALTER TABLE docs DISABLE TRIGGER ALL; INSERT INTO docs VALUES (2, 'two')")
    store._check_at = 0.0
    await catch_up(store)
    told = (await one(store)).problem

    await db.execute("INSERT INTO docs VALUES (3, 'three'); ALTER TABLE docs ENABLE TRIGGER ALL")
    store._check_at = 0.0
    await catch_up(store)

    assert told is not None
    assert "disabled" in told
    assert (await one(store)).problem is None
    assert await in_step(store, db) == 3
