"""Rows that are there when a table is attached are embedded behind fresh writes, and a walk can be cut anywhere."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest
from tests.stores.postgres.tables import CREATE, PATIENCE, attach, attach_docs, catch_up, gather, in_step, one

from embedq.model import JobFilter, JobStatus, Priority
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS, take


async def fill(db: asyncpg.Connection, rows: int) -> None:
    await db.execute(CREATE)
    await db.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, $1) n", rows)


async def test_fresh_writes_go_first(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Rows that were there wait in the lowest lane; one that is touched meanwhile goes to the front."""
    await fill(db, 20)
    await attach(store)
    await gather(store)
    await db.execute("INSERT INTO docs VALUES (99, 'fresh'); UPDATE docs SET body = 'touched' WHERE id = 15")
    await gather(store)

    first = {str(lease.record_id) for lease in await take(store, limit=2)}

    assert first == {"99", "15"}
    jobs = (await store.jobs(JobFilter(status=JobStatus.PENDING), limit=100)).items
    assert {job.priority for job in jobs} == {Priority.LOW}


async def test_progress_is_told(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Rows, rows seen and the end of the walk are right at every step."""
    await fill(db, 2500)
    first = await attach(store)
    steps = [(first.rows, first.seen, first.walking)]
    while await store.gather(limit=1000):
        now = await one(store)
        steps.append((now.rows, now.seen, now.walking))

    assert {rows for rows, _, _ in steps} == {2500}
    assert [seen for _, seen, _ in steps] == [0, 125, 375, 875, 1875, 2500]  # small at first: workers begin at once
    assert [walking for _, _, walking in steps] == [True] * 5 + [False]


async def test_a_walk_passes_an_empty_key(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A row whose key is the empty text can be no record, and alone on a page it does not begin the walk again."""
    await db.execute("CREATE TABLE docs (id text PRIMARY KEY, body text)")
    await db.execute("INSERT INTO docs VALUES ('', 'one'), ('b', 'two'), ('c', 'three')")
    await attach(store, into=None)

    steps = [await store.gather(limit=1) for _ in range(10)]

    assert steps[-1] == 0
    now = await one(store)
    assert (now.seen, now.refusals, now.walking) == (3, 1, False)


@pytest.mark.parametrize("rows", [0, 125, 375])
async def test_a_table_that_ends_with_a_page_is_walked_to_its_end(
    store: PostgresStore, db: asyncpg.Connection, rows: int
) -> None:
    """A full last page, or none at all, ends the walk."""
    await fill(db, rows)
    await attach(store)
    await catch_up(store)

    now = await one(store)
    assert (now.seen, now.walking) == (rows, False)
    assert await in_step(store, db) == rows


async def test_another_process_goes_on_with_a_walk(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """Whoever attached is gone after the first page: anybody's next look goes on from there."""
    await fill(db, 2500)
    other = await PostgresStore.open(postgres_url)
    await attach(other)
    await other.gather()
    await other.close()

    assert (await one(store)).seen == 125
    await catch_up(store)

    assert (await one(store)).seen == 2500
    assert await in_step(store, db) == 2500


async def test_an_idle_worker_has_the_whole_table_walked(store: PostgresStore, db: asyncpg.Connection) -> None:
    """It is woken by the first page, and the others come while it works."""
    await fill(db, 2500)
    await attach(store)

    async with asyncio.timeout(PATIENCE):
        while not await take(store, limit=100):
            await store.wait_for_work(timedelta(seconds=5))
        while (await one(store)).walking:  # noqa: ASYNC110 the server tells nobody
            await asyncio.sleep(0.01)
    assert (await one(store)).seen == 2500


async def test_closing_leaves_a_walk_to_others(store: PostgresStore, db: asyncpg.Connection, postgres_url: str) -> None:
    """A process that ends in the middle of a walk does not wait for its end, and loses nothing."""
    await fill(db, 20_000)
    other = await PostgresStore.open(postgres_url)
    await attach(other)
    async with asyncio.timeout(PATIENCE):
        while not await take(other, limit=100):
            await other.wait_for_work(timedelta(seconds=5))

    await other.close()

    assert (await one(store)).walking
    async with asyncio.timeout(PATIENCE):
        while (await one(store)).walking:  # the server may still be at the page that was given up
            await gather(store)
    assert (await one(store)).seen == 20_000


async def test_attaching_again_walks_again(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The same command changes nothing that is right and mends what was changed behind the triggers' back."""
    await attach_docs(store, db, rows=3)
    await db.execute("""
        ALTER TABLE docs DISABLE TRIGGER USER;
        UPDATE docs SET body = 'edited' WHERE id = 1; DELETE FROM docs WHERE id = 2;
        UPDATE docs SET e = NULL WHERE id = 3;
        INSERT INTO docs VALUES (9, 'nine'); ALTER TABLE docs ENABLE TRIGGER USER""")
    assert await catch_up(store) == 0

    again = await attach(store)

    assert (again.walking, again.seen) == (True, 0)
    assert await catch_up(store) == 2
    assert await in_step(store, db) == 3
    await attach(store)
    assert await catch_up(store) == 0


async def test_attaching_again_does_not_start_a_walk_over(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A walk that was cut off is gone on with."""
    await fill(db, 2500)
    await attach(store)
    await store.gather()

    assert (await attach(store)).seen == 125


async def test_writes_during_the_walk_are_not_lost(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """Rows that are inserted, edited, moved and deleted before and behind the walker end as they are."""
    await fill(db, 3000)
    await attach(store)
    application = await asyncpg.connect(postgres_url)

    async def edit() -> None:
        for n in range(40):
            await application.execute("UPDATE docs SET body = body || '.' WHERE id % 40 = $1", n)
            await application.execute("UPDATE docs SET id = -id WHERE id % 400 = $1", n)
            await application.execute("DELETE FROM docs WHERE id % 300 = $1", n)
            await application.execute("INSERT INTO docs VALUES (10000 + $1::int, 'new')", n)

    editing = asyncio.create_task(edit())
    while not editing.done():
        await store.gather(limit=100)
    await editing
    await application.close()
    await catch_up(store)

    assert await in_step(store, db) > 2500


async def test_two_processes_walk_one_table(store: PostgresStore, db: asyncpg.Connection, postgres_url: str) -> None:
    """They take turns and count every row once."""
    await fill(db, 3000)
    await attach(store)
    other = await PostgresStore.open(postgres_url)

    async def walk(mine: PostgresStore) -> None:
        while (await one(mine)).walking:
            await mine.gather(limit=100)

    await asyncio.gather(walk(store), walk(other))
    await other.close()
    await catch_up(store)

    assert (await one(store)).seen == 3000
    assert await in_step(store, db) == 3000


async def test_tables_take_turns(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A long walk over one table keeps no other waiting, nor does a table in trouble."""
    await fill(db, 3000)
    await db.execute(f"CREATE TABLE small (id int PRIMARY KEY, body text, e vector({DIMENSIONS}))")
    await db.execute("CREATE TABLE broken (id int PRIMARY KEY, body text); INSERT INTO broken VALUES (1, 'x')")
    await attach(store, "broken", into=None, name="broken")
    await db.execute("ALTER TABLE broken RENAME body TO words")
    store._check_at = 1e18
    await attach(store)
    await attach(store, "small", name="small")
    await db.execute("INSERT INTO small VALUES (1, 'small')")

    for _ in range(3):
        await store.gather(limit=100)

    assert (await store.counts())["small"].records == 1
    assert (await one(store)).seen in {100, 200}
    assert "words" in str((await one(store, "broken")).problem) or "body" in str((await one(store, "broken")).problem)
