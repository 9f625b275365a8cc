"""A row that refuses its vector is tried ever more rarely, then given up on with a reason, until it changes."""

from datetime import timedelta

import asyncpg
from tests.stores.postgres.tables import CREATE, attach, catch_up, gather, in_step, one

from embedq.operator.checkup import examine
from embedq.operator.report import QueueStatus, Verdict
from embedq.operator.watching import look
from embedq.stores.postgres import PostgresStore

TRIED = "SELECT tries, given_up, due - clock_timestamp() AS waits FROM embedq.unplaced"
LATER = "UPDATE embedq.unplaced SET due = due - interval '1 day'"  # a day passes
TIMES = 10
HEARTBEAT = timedelta(minutes=1)
CHECK = "ALTER TABLE docs ADD CONSTRAINT small CHECK (e IS NULL OR other IS DISTINCT FROM 13)"


async def refused(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Have one row of three whose CHECK refuses the vector."""
    await db.execute(CREATE)
    await db.execute("INSERT INTO docs VALUES (1, 'one', 1), (2, 'two', 13), (3, 'three', 3)")
    await db.execute(CHECK)
    await attach(store)
    assert await catch_up(store) == 3


async def give_up(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Let so many days pass that it is given up on."""
    for _ in range(2 * TIMES):
        await db.execute(LATER)
        await gather(store)


async def test_a_refused_vector_waits_twice_as_long_each_time(store: PostgresStore, db: asyncpg.Connection) -> None:
    """However often somebody looks, it is tried when it is due, by the database's clock."""
    await refused(store, db)
    waits = []
    for _ in range(5):
        for _ in range(20):
            await gather(store)
        row = await db.fetchrow(TRIED)
        waits.append((row["tries"], row["waits"].total_seconds()))
        await db.execute(LATER)

    assert [tries for tries, _ in waits] == [1, 2, 3, 4, 5]
    assert all(2 ** (tries - 1) / 2 < left <= 2 ** (tries - 1) for tries, left in waits[1:])
    assert await db.fetchval("SELECT count(*) FROM docs WHERE e IS NOT NULL") == 2


async def test_it_is_given_up_on_and_said(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Attachments, status and doctor say why, and nothing is tried any more."""
    await refused(store, db)
    await give_up(store, db)

    row = await db.fetchrow(TRIED)
    assert (row["tries"], row["given_up"]) == (TIMES, True)
    now = await one(store)
    assert now.given_up == 1
    assert '"small"' in str(now.problem)
    assert "given up on 1 of its rows" in str(now.problem)

    async def status() -> QueueStatus:
        return await look(store, heartbeat=HEARTBEAT, recovery=True)

    assert any("given up on 1" in note for note in (await status()).notes)
    said = [finding for finding in await examine(store, status, [], repair=False) if finding.check == "tables"]
    assert [(finding.verdict, "given up on 1" in finding.message) for finding in said] == [(Verdict.PROBLEM, True)]
    assert (await store.counts())["docs"].pending == 0  # nobody waits for it


async def test_a_change_of_the_row_tries_again(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Also if it changes nothing but what stood in the way and its text."""
    await refused(store, db)
    await give_up(store, db)

    await db.execute("UPDATE docs SET body = 'second', other = 2 WHERE id = 2")

    assert await catch_up(store) == 1
    assert await in_step(store, db) == 3
    assert ((await one(store)).problem, (await one(store)).given_up) == (None, 0)


async def test_a_change_of_the_row_that_does_not_help(store: PostgresStore, db: asyncpg.Connection) -> None:
    """It is tried as often again, and counted once."""
    await refused(store, db)
    await give_up(store, db)
    await db.execute("UPDATE docs SET body = 'second' WHERE id = 2")
    assert await catch_up(store) == 1
    assert (await one(store)).given_up == 0

    await give_up(store, db)

    assert (await one(store)).given_up == 1
    assert await db.fetchval("SELECT count(*) FROM embedq.unplaced") == 1


async def test_a_row_that_goes_is_not_told_of_any_more(store: PostgresStore, db: asyncpg.Connection) -> None:
    """What it refused is nobody's trouble."""
    await refused(store, db)
    await give_up(store, db)
    await db.execute("DELETE FROM docs WHERE id = 2")
    await gather(store)

    assert ((await one(store)).problem, (await one(store)).given_up) == (None, 0)
    assert await in_step(store, db) == 2


async def test_a_check_that_goes_is_noticed_at_once(store: PostgresStore, db: asyncpg.Connection) -> None:
    """What was given up on is tried again when the table's checks are others."""
    await refused(store, db)
    await give_up(store, db)

    await db.execute("ALTER TABLE docs DROP CONSTRAINT small")
    await gather(store)

    assert await in_step(store, db) == 3


async def test_attaching_again_tries_again(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The way out where another column stood in the way."""
    await refused(store, db)
    await give_up(store, db)
    await db.execute("UPDATE docs SET other = 2 WHERE id = 2")
    assert await catch_up(store) == 0

    await attach(store)

    assert await catch_up(store) == 0
    assert await in_step(store, db) == 3
