"""An application that keeps the file's one write lock: readers go on, writers are told."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedq.errors import StoreBusy
from embedq.model import Patch, Query, RecordId
from embedq.stores.sqlite import SqliteStore, connection
from embedq.testing.stores.stage import DIMENSIONS, NOON, NOTES, declaration, take, vector_of, write

SOON = 5.0  # seconds
BUSY = 300  # milliseconds


@pytest.fixture
async def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    """Open a store whose patience with others is short."""
    pragmas = (f"PRAGMA busy_timeout = {BUSY}", *connection.PRAGMAS[1:])
    assert connection.PRAGMAS[0].startswith("PRAGMA busy_timeout")
    monkeypatch.setattr(connection, "PRAGMAS", pragmas)
    opened = await SqliteStore.open(tmp_path / "queue.db")
    collection = await opened.declare(declaration(), now=NOON)
    await opened.learn(collection.space.id, DIMENSIONS)
    yield opened
    await opened.close()


@contextmanager
def holding(path: Path) -> Iterator[None]:
    """Keep the file's write lock as an application does that forgot to commit."""
    application = sqlite3.connect(path, isolation_level=None)
    application.execute("BEGIN IMMEDIATE")
    yield
    application.execute("ROLLBACK")
    application.close()


async def test_readers_go_on_beside_an_open_transaction(store: SqliteStore, tmp_path: Path) -> None:
    """Search, lists and counts are answered while writers wait."""
    await write(store, "one text")
    with holding(tmp_path / "queue.db"):
        puts = [asyncio.create_task(write(store, f"mine {number}", f"r{number}")) for number in range(50)]
        async with asyncio.timeout(SOON):
            assert len(await store.search_words(NOTES, "text", Query())) == 1
            await store.search_vector(NOTES, vector_of("text"), Query())
            assert (await store.counts())[NOTES].pending == 1
            assert not await store.paused()
            assert len(await store.get(NOTES, [RecordId("a")])) == 1
        ended = await asyncio.gather(*puts, return_exceptions=True)

    assert {type(error) for error in ended} == {StoreBusy}


async def test_writers_are_told_who_is_in_the_way(store: SqliteStore, tmp_path: Path) -> None:
    """Put, patch, delete and lease end with an error that says what to do, and nothing was written."""
    await write(store, "before")
    with holding(tmp_path / "queue.db"):
        for act in (
            write(store, "mine"),
            store.patch(NOTES, RecordId("a"), Patch(text="mine"), now=NOON),
            store.delete(NOTES, [RecordId("a")], now=NOON),
            take(store),
        ):
            async with asyncio.timeout(SOON):
                with pytest.raises(StoreBusy, match="transaction"):
                    await act

    [record] = await store.get(NOTES, [RecordId("a")])
    assert record.text == "before"
    await write(store, "mine")
