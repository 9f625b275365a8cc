"""What the build of an ANN index may use: memory for its graph, and parallel workers unless the server refuses."""

import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.test_index_building import WORTH, Ear, work

from embedq.stores.postgres import PostgresStore
from embedq.stores.postgres.build_memory import graph_bytes
from embedq.telemetry import Telemetry
from embedq.testing.postgres import PostgresServer
from embedq.testing.stores.stage import DIMENSIONS, NOON, declaration, write_many

VECTORS, LONG = 3_000, 384
SHARED_BYTES = 40 << 20  # less than a parallel build begins with
WATCH = """
CREATE TABLE seen (memory text, workers text);
CREATE FUNCTION note() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO public.seen
    VALUES (current_setting('maintenance_work_mem'), current_setting('max_parallel_maintenance_workers'));
END $$;
CREATE EVENT TRIGGER watch ON ddl_command_start WHEN TAG IN ('CREATE INDEX') EXECUTE FUNCTION note();
"""
FILL = f"""
SELECT setseed(0.5);
CREATE TABLE items (v vector({LONG}));
INSERT INTO items SELECT (SELECT array_agg(random() - 0.5 + 0 * (n + i)) FROM generate_series(1, {LONG}) i)::vector
  FROM generate_series(1, {VECTORS}) n;
"""  # noqa: S608 put together from constants
BUILD = "DROP INDEX IF EXISTS ann; CREATE INDEX ann ON items USING hnsw (v vector_cosine_ops)"


async def opened(url: str, ear: Ear, memory_mb: int = 1024) -> PostgresStore:
    """Open a store with vectors enough for an index."""
    store = await PostgresStore.open(url, index_from=WORTH, index_memory_mb=memory_mb, telemetry=Telemetry(ear))
    collection = await store.declare(declaration(), now=NOON)
    await store.learn(collection.space.id, DIMENSIONS)
    await write_many(store, WORTH)
    await work(store, WORTH)
    return store


@contextmanager
def small_files() -> Iterator[None]:
    """Let processes that begin now share little memory: it is a file to the kernel."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SHARED_BYTES, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest_asyncio.fixture
async def admin(postgres_url: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


@pytest.mark.parametrize(
    ("theirs", "vectors", "memory_mb", "memory", "workers"),
    [
        ("64MB", 1, 1024, "64MB", "4"),  # few vectors: just enough for workers
        ("64MB", 300_000, 1024, "256MB", "4"),  # what the graph needs
        ("64MB", 300_000, 128, "128MB", "4"),  # no more than may be
        ("200MB", 300_000, 128, "200MB", "4"),  # an administrator allows more
        ("2GB", 1, 1024, "64MB", "4"),  # and that is no reason to take it
    ],
)
async def test_a_build_gets_the_memory_that_its_graph_needs(
    postgres_url: str, admin: asyncpg.Connection, theirs: str, vectors: int, memory_mb: int, memory: str, workers: str
) -> None:
    """Within the setting, or the server's own where that is more; and half of the server's parallel workers."""
    store = await opened(postgres_url, Ear(), memory_mb)
    name = await admin.fetchval("SELECT current_database()")
    await admin.execute(f"ALTER DATABASE {name} SET maintenance_work_mem = '{theirs}'; {WATCH}")
    await admin.execute("INSERT INTO embedq.tally (collection, records) VALUES (1, $1)", vectors)

    assert await store.finish(now=NOON) == 1

    [row] = await admin.fetch("SELECT memory, workers FROM seen")
    found = await admin.fetchval("SELECT abs(pg_size_bytes($1) - pg_size_bytes($2)) >> 20", row["memory"], memory)
    assert (found < 16, row["workers"]) == (True, workers), row
    await store.close()


async def test_an_administrators_choice_of_workers_stands(postgres_url: str, admin: asyncpg.Connection) -> None:
    """Who has set how many there are for such work is not overruled."""
    store = await opened(postgres_url, Ear())
    name = await admin.fetchval("SELECT current_database()")
    await admin.execute(f"ALTER DATABASE {name} SET max_parallel_maintenance_workers = 1; {WATCH}")

    assert await store.finish(now=NOON) == 1

    assert await admin.fetchval("SELECT workers FROM seen") == "1"
    await store.close()


async def test_no_setting_is_left_behind_in_a_session_of_the_pooler(pooled_url: str, admin: asyncpg.Connection) -> None:
    """A build behind a pooler sets nothing: the session is somebody else's a moment later."""
    store = await opened(pooled_url, Ear())
    await admin.execute(WATCH)

    assert await store.finish(now=NOON) == 1

    assert [tuple(row) for row in await admin.fetch("SELECT memory, workers FROM seen")] == [("64MB", "2")]
    await store.close()


@pytest.mark.parametrize(("share", "fits"), [(1.0, True), (0.6, False)])
async def test_the_reckoned_memory_is_enough(admin: asyncpg.Connection, share: float, *, fits: bool) -> None:
    """A graph of so many vectors stays in it, and would not in much less."""
    notices: list[str] = []
    admin.add_log_listener(lambda _, notice: notices.append(str(notice)))
    await admin.execute("CREATE EXTENSION vector")
    await admin.execute(FILL)
    await admin.execute(f"SET maintenance_work_mem = {int(graph_bytes(VECTORS, 4 * LONG) * share) >> 10}")

    await admin.execute(BUILD)

    assert any("no longer fits" in notice for notice in notices) is not fits


@pytest.mark.parametrize(("way", "remedy"), [("direct", "EMBEDQ_PG_INDEX_MEMORY_MB"), ("pooled", "ALTER ROLE")])
async def test_a_graph_that_outgrows_its_memory_is_told(
    request: pytest.FixtureRequest, postgres_url: str, admin: asyncpg.Connection, way: str, remedy: str
) -> None:
    """Whoever wonders why a build takes hours finds in the log what to raise."""
    name = await admin.fetchval("SELECT current_database()")
    await admin.execute(f"ALTER DATABASE {name} SET maintenance_work_mem = '1MB'")
    ear = Ear()
    store = await opened(request.getfixturevalue("pooled_url") if way == "pooled" else postgres_url, ear, 1)
    await write_many(store, 3_000, prefix="more")
    for _ in range(6):
        await work(store, 500)

    assert await store.finish(now=NOON) == 1

    assert ear.acts == ["building", "outgrown", "built"]
    assert (ear.facts[1]["level"], remedy in ear.facts[1]["reason"]) == ("warning", True)
    await store.close()


async def test_a_server_without_shared_memory_builds_alone() -> None:
    """A build that is refused parallel workers is made again without them, at once."""
    ear = Ear()
    with small_files(), PostgresServer(18) as server:
        url = server.create_database("small")
        store = await opened(url, ear)
        db = await asyncpg.connect(url)
        await db.execute(WATCH)
        await db.execute("ALTER TABLE embedq.vector_1 SET (parallel_workers = 2)")  # however short the table is

        assert await store.finish(now=NOON) == 1

        assert [row["workers"] for row in await db.fetch("SELECT workers FROM seen")] == ["4", "0"]
        assert ear.acts == ["building", "not_built", "building", "built"]
        assert "without them" in ear.facts[1]["reason"]
        await db.close()
        await store.close()
