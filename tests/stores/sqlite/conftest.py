"""A store on a file of its own, for facts that are SQLite's."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from embedq.stores.sqlite import SqliteStore
from embedq.stores.sqlite.connection import connect
from embedq.testing.stores.stage import DIMENSIONS, NOON, declaration


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """Open a store with one collection, `notes`."""
    store = await SqliteStore.open(tmp_path / "embedq.db")
    collection = await store.declare(declaration(), now=NOON)
    await store.learn(collection.space.id, DIMENSIONS)
    yield store
    await store.close()


@pytest.fixture
def db(tmp_path: Path, store: SqliteStore) -> Iterator[sqlite3.Connection]:
    """Look into the file of the store."""
    del store
    db = connect(tmp_path / "embedq.db")
    yield db
    db.close()
