"""A store on a database of its own, for facts that are PostgreSQL's."""

from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.roles import granted, granted16, granted18, roles

from embedq.stores.postgres import PostgresStore
from embedq.testing.postgres import Pgbouncer, PostgresUnavailable
from embedq.testing.postgres.fixtures import unavailable
from embedq.testing.stores.stage import DIMENSIONS, NOON, declaration

__all__ = ["granted", "granted16", "granted18", "roles"]


@pytest.fixture(params=[18, 16])
def postgres_version(request: pytest.FixtureRequest) -> int:
    """Prove each fact on the newest version and on an older one."""
    return int(request.param)


@pytest.fixture
def postgres_template(request: pytest.FixtureRequest) -> str:
    """Copy a database that has what a test is given, roles or an open store; others begin with an empty one."""
    if "roles" in request.fixturenames:
        return str(request.getfixturevalue("granted").database)
    return str(request.getfixturevalue("installed")) if "store" in request.fixturenames else "template1"


@pytest_asyncio.fixture
async def store(postgres_url: str) -> AsyncIterator[PostgresStore]:
    """Open a store with one collection, `notes`."""
    store = await PostgresStore.open(postgres_url)
    collection = await store.declare(declaration(), now=NOON)
    await store.learn(collection.space.id, DIMENSIONS)
    yield store
    await store.close()


@pytest_asyncio.fixture
async def db(postgres_url: str, store: PostgresStore) -> AsyncIterator[asyncpg.Connection]:
    """Connect to the store's database as an application would."""
    del store
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


@pytest.fixture
def pooled_url(request: pytest.FixtureRequest, postgres_version: int, postgres_url: str) -> Iterator[str]:
    """The test's database by way of a transaction pooler."""
    try:
        pooler = Pgbouncer(request.getfixturevalue(f"postgres{postgres_version}"))
    except PostgresUnavailable as error:
        unavailable(str(error))
    with pooler:
        yield pooler.url(urlsplit(postgres_url).path[1:]) + "?pooler=transaction"
