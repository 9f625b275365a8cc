"""Editors, gatherers and settlers at once: in the end every row has the vector of its text."""

import asyncio
import random
import time

import asyncpg
import pytest
from tests.stores.postgres.tables import CREATE, PATIENCE, attach, catch_up, found_again, gather, in_step, one, records

from embedq.model import Ask, WorkerId
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import LEASE, done

SECONDS = 6.0
ROWS = 60
DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


# Whoever is about to store the old text says so, and waits until a gate is opened.
SLOW = """
CREATE FUNCTION wait_for_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_advisory_lock_shared(41);
  WHILE NOT pg_try_advisory_xact_lock_shared(42) LOOP
    PERFORM pg_sleep(0.005);
  END LOOP;
  PERFORM pg_advisory_unlock_shared(41);
  RETURN NEW;
END $$;
CREATE TRIGGER wait_for_gate BEFORE INSERT ON embedq.record FOR EACH ROW WHEN (NEW.text = 'old')
EXECUTE FUNCTION wait_for_gate()
"""
STORING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 41"


async def edit(url: str, seed: int, end: float) -> int:
    """Insert, edit, rename, empty and delete random rows, alone and by many, some of it rolled back."""
    chance, db, steps = random.Random(seed), await asyncpg.connect(url), 0  # noqa: S311 nothing secret
    while time.monotonic() < end:
        one_, two = chance.randrange(ROWS), chance.randrange(ROWS)
        word = f"text {chance.randrange(8)}"  # few texts, so that they come back
        act = chance.choice(
            [
                ("INSERT INTO docs VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET body = excluded.body", one_, word),
                ("UPDATE docs SET body = $2 WHERE id = $1", one_, word),
                ("UPDATE docs SET body = $3 WHERE id BETWEEN $1 AND $2", one_, one_ + 10, word),
                ("DELETE FROM docs WHERE id = $1", one_),
                ("UPDATE docs SET body = NULL WHERE id = $1", one_),
                ("UPDATE docs SET id = $2 WHERE id = $1 AND NOT EXISTS (SELECT FROM docs WHERE id = $2)", one_, two),
                ("UPDATE docs SET other = $2 WHERE id > $1", one_, two),
            ]
        )
        try:
            async with db.transaction():
                await db.execute(*act)
                if chance.random() < 0.2:
                    await asyncio.sleep(0.02)  # it is held for a while, as applications do
                if chance.random() < 0.1:
                    raise asyncpg.UniqueViolationError("changed my mind")  # noqa: TRY301 it rolls back, as an error would
        except (asyncpg.UniqueViolationError, asyncpg.DeadlockDetectedError):  # between two applications
            continue
        steps += 1
    await db.close()
    return steps


async def work(store: PostgresStore, name: str, end: float) -> int:
    """Gather, settle and lease the next, as a worker does."""
    settled = 0
    ask = Ask(worker=WorkerId(name), spaces=[space.id for space in await store.spaces()], limit=7, span=LEASE)
    leases = (await store.lease(ask)).leases
    while time.monotonic() < end:
        await store.gather(limit=20)
        answer = await store.settle([done(lease) for lease in leases], then=ask)
        settled += len(answer.jobs)
        leases = answer.next.leases
    await store.settle([done(lease) for lease in leases])
    return settled


@pytest.mark.parametrize("postgres_version", [18])
async def test_everything_ends_in_step(store: PostgresStore, db: asyncpg.Connection, postgres_url: str) -> None:
    """No wrong vector, no record without a row, nothing left to note or to copy, and no trouble."""
    await db.execute(CREATE)
    await db.execute("INSERT INTO docs SELECT n, 'text ' || n % 8 FROM generate_series(1, $1) n", ROWS // 2)
    await attach(store)
    other = await PostgresStore.open(postgres_url)
    end = time.monotonic() + SECONDS

    editing = [edit(postgres_url, seed, end) for seed in range(4)]
    working = [work(store, "one", end), work(other, "two", end)]
    counts = await asyncio.gather(*editing, *working)
    await other.close()
    await found_again(store)
    await catch_up(store)

    assert min(counts) > 20
    await in_step(store, db)
    assert (await one(store)).problem is None
    assert (await store.counts())["docs"].missing == 0


async def test_of_two_looks_at_one_row_the_later_is_stored_last(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """One process walks and has read a row; the row changes and is noted; another process must not overtake it."""
    await db.execute(CREATE)
    await db.execute("INSERT INTO docs VALUES (1, 'old')")
    await db.execute(SLOW)
    await attach(store, into=None)
    gate = await asyncpg.connect(postgres_url)
    await gate.execute("SELECT pg_advisory_lock(42)")
    walking = asyncio.create_task(store.gather())
    async with asyncio.timeout(PATIENCE):
        while not await db.fetchval(STORING):  # noqa: ASYNC110 the server tells nobody
            await asyncio.sleep(0.01)
    await db.execute("UPDATE docs SET body = 'new' WHERE id = 1")
    other = await PostgresStore.open(postgres_url)

    overtaking = await other.gather()
    await gate.close()
    walked = await walking
    await gather(store)

    assert await records(store) == {"1": "new"}
    assert overtaking == 0
    assert walked > 0
    await other.close()


@pytest.mark.parametrize("postgres_version", [18])
async def test_workers_are_never_part_of_a_deadlock(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """One application that takes rows in every order, and two workers: nobody is ever undone."""
    await db.execute(CREATE)
    await db.execute("INSERT INTO docs SELECT n, 'text' FROM generate_series(0, $1) n", ROWS)
    await attach(store)
    other = await PostgresStore.open(postgres_url)
    end = time.monotonic() + SECONDS / 2

    async def swing() -> int:
        application, steps = await asyncpg.connect(postgres_url), 0
        while time.monotonic() < end:
            order = range(ROWS) if steps % 2 else range(ROWS, 0, -1)
            async with application.transaction():
                for id_ in order:
                    await application.execute("UPDATE docs SET body = $2 WHERE id = $1", id_, f"text {steps} {id_}")
            steps += 1
        await application.close()
        return steps

    steps, *_ = await asyncio.gather(swing(), work(store, "one", end), work(other, "two", end))
    await other.close()
    await catch_up(store)

    assert steps > 3
    assert await db.fetchval(DEADLOCKS) == 0
    assert await in_step(store, db) == ROWS + 1
