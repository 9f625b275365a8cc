"""An unlogged table is empty after a crash, and so is its collection."""

import asyncio
import os
import signal
from collections.abc import Iterator
from uuid import uuid4

import asyncpg
import pytest
from tests.stores.postgres.tables import CREATE, PATIENCE, attach, catch_up, in_step, mend, records

from embedq.stores.postgres import PostgresStore
from embedq.testing.postgres.server import PostgresServer


@pytest.fixture(scope="module", params=[18, 16])
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """Run a server that may be crashed."""
    with PostgresServer(request.param) as server:
        yield server


RESET_AT = "SELECT pg_stat_get_bgwriter_stat_reset_time()"


async def crash_a_session(url: str) -> None:
    """Kill one session's process: the server throws out all the others, and recovers."""
    victim = await asyncpg.connect(url)
    before = await victim.fetchval(RESET_AT)
    os.kill(victim.get_server_pid(), signal.SIGKILL)
    victim.terminate()
    async with asyncio.timeout(PATIENCE):
        while await reset_at(url) in (None, before):  # noqa: ASYNC110 the server tells nobody
            await asyncio.sleep(0.02)


async def reset_at(url: str) -> object:
    """Say when the server last came up; None while it does not answer."""
    try:
        db = await asyncpg.connect(url)
        value: object = await db.fetchval(RESET_AT)
        await db.close()
    except (OSError, asyncpg.PostgresError):
        return None
    return value


@pytest.mark.parametrize("whole", [False, True])
async def test_a_crash_empties_an_unlogged_table(server: PostgresServer, *, whole: bool) -> None:
    """No trigger sees it and its file keeps its number; one that is not unlogged stays as it is."""
    url = server.create_database(f"unlogged_{uuid4().hex}")
    store = await PostgresStore.open(url)
    db = await asyncpg.connect(url)
    await db.execute("CREATE EXTENSION IF NOT EXISTS vector")
    await db.execute(CREATE.replace("CREATE TABLE", "CREATE UNLOGGED TABLE"))
    await db.execute("INSERT INTO docs VALUES (1, 'one')")
    await attach(store)
    await catch_up(store)
    assert await in_step(store, db) == 1
    await store.close()
    await db.close()

    if whole:
        server.kill()
        server.start()
    else:
        await crash_a_session(url)
    store = await PostgresStore.open(url)
    assert await records(store) == {"1": "one"}
    await mend(store)
    await catch_up(store)

    assert await records(store) == {}
    await store.close()
