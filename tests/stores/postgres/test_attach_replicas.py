"""Rows that come by logical replication, or with session_replication_role = replica, are followed like any others."""

# ruff: noqa: S608 (names are put into statements here on purpose)

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.tables import PATIENCE, attach, attach_docs, catch_up, in_step, left, one

from embedq.stores.postgres import PostgresStore
from embedq.testing.postgres.server import PostgresServer
from embedq.testing.stores.stage import DIMENSIONS

REPLICA = "SET session_replication_role = replica"
TABLE = f"CREATE TABLE docs (id int PRIMARY KEY, body text, e vector({DIMENSIONS}))"
PARTS = f"""
CREATE TABLE docs (id int PRIMARY KEY, body text, e vector({DIMENSIONS})) PARTITION BY RANGE (id);
CREATE TABLE docs_low PARTITION OF docs FOR VALUES FROM (MINVALUE) TO (100);
CREATE TABLE docs_high PARTITION OF docs FOR VALUES FROM (100) TO (MAXVALUE)
"""
WRITES = [
    "INSERT INTO docs VALUES (7, 'seven'), (700, 'many')",
    "UPDATE docs SET body = 'edited' WHERE id IN (2, 700)",
    "UPDATE docs SET id = 300 WHERE id = 1",
    "DELETE FROM docs WHERE id = 3",
    "INSERT INTO docs SELECT n, repeat(md5(n::text), 500) FROM generate_series(20, 30) n",
    "UPDATE docs SET body = body || '!' WHERE id BETWEEN 20 AND 25",
]


@pytest.mark.parametrize("table", [TABLE, PARTS], ids=["plain", "partitioned"])
@pytest.mark.parametrize("write", [*WRITES, "TRUNCATE docs", "UPDATE docs SET e = NULL"])
async def test_a_session_in_the_replica_role(
    store: PostgresStore, db: asyncpg.Connection, table: str, write: str
) -> None:
    """Tools that restore and replicate write like that."""
    await db.execute(table)
    await db.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, 5) n")
    await attach(store)
    await catch_up(store)
    await db.execute(REPLICA)

    await db.execute(write)
    await catch_up(store)

    assert await in_step(store, db) == await db.fetchval("SELECT count(*) FROM docs")


async def test_what_changes_nothing_that_matters_is_not_noted(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Row by row, as by the statement."""
    await attach_docs(store, db, rows=3)

    await db.execute(f"{REPLICA}; UPDATE docs SET other = 5, body = body")

    assert (await left(db))["noted"] == 0


async def test_a_write_of_a_replica_goes_through_whatever_happens(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A subscription that stopped at our trigger would stop for good: what cannot be noted is looked for."""
    await attach_docs(store, db, rows=1)
    await db.execute("ALTER TABLE embedq.noted RENAME TO elsewhere")
    before = await db.fetchval("SELECT last_value FROM embedq.unnoted")

    await db.execute(f"{REPLICA}; UPDATE docs SET body = 'edited'")

    assert await db.fetchval("SELECT last_value FROM embedq.unnoted") > before
    await db.execute("ALTER TABLE embedq.elsewhere RENAME TO noted")


@pytest.fixture(scope="module", params=[18, 16])
def publisher(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """Run a server that publishes."""
    with PostgresServer(request.param, settings={"wal_level": "logical"}, fsync=False) as server:
        yield server


@pytest_asyncio.fixture
async def origin(publisher: PostgresServer) -> AsyncIterator[asyncpg.Connection]:
    """Connect to the database that changes are made in."""
    connection = await asyncpg.connect(publisher.create_database(f"origin_{uuid4().hex}"))
    yield connection
    await connection.close()


@pytest.fixture
def subscriber(publisher: PostgresServer) -> str:
    """Make a database that changes are applied to."""
    return publisher.create_database(f"subscriber_{uuid4().hex}")


async def subscribe(db: asyncpg.Connection, origin: asyncpg.Connection, publisher: PostgresServer) -> None:
    """Have the tables of one database follow those of another."""
    name = await origin.fetchval("SELECT current_database()")
    await origin.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    await origin.execute("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", name)
    await db.execute(
        f"CREATE SUBSCRIPTION {name} CONNECTION 'host=127.0.0.1 port={publisher.port} user=postgres dbname={name}' "
        "PUBLICATION everything WITH (create_slot = false)"
    )


async def arrived(db: asyncpg.Connection, origin: asyncpg.Connection) -> None:
    """Wait until every row there is here."""
    rows = "SELECT coalesce(array_agg((id, body)::text ORDER BY id), '{}') FROM docs"
    async with asyncio.timeout(PATIENCE):
        while await db.fetchval(rows) != await origin.fetchval(rows):  # noqa: ASYNC110 the server tells nobody
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("table", [TABLE, PARTS], ids=["plain", "partitioned"])
async def test_a_subscriber_is_followed(
    subscriber: str, origin: asyncpg.Connection, publisher: PostgresServer, table: str
) -> None:
    """Its first copy, inserts, edits, moves, deletions and a TRUNCATE on the other side all reach the vectors."""
    store = await PostgresStore.open(subscriber)
    db = await asyncpg.connect(subscriber)
    await origin.execute("CREATE TABLE docs (id int PRIMARY KEY, body text)")
    await origin.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, 5) n")
    await db.execute(table)
    await attach(store)
    await catch_up(store)

    await subscribe(db, origin, publisher)
    for write in ["SELECT 1", *WRITES, "TRUNCATE docs", "INSERT INTO docs VALUES (1, 'again')"]:
        await origin.execute(write)
        await arrived(db, origin)
        await catch_up(store)
        assert await in_step(store, db) == await origin.fetchval("SELECT count(*) FROM docs"), write

    assert (await one(store)).problem is None
    name = await origin.fetchval("SELECT current_database()")
    await db.execute(f"DROP SUBSCRIPTION {name}")
    await db.close()
    await store.close()
