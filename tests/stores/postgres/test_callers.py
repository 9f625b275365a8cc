"""Records are put in the caller's own transaction, whatever the caller's driver."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row

from embedq.errors import Conflict, Invalid, NotFound
from embedq.model import EmbeddingStatus, NewRecord, RecordId
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import NOON, NOTES, take, write

A = NewRecord(id=RecordId("a"), text="A 🧵", attributes={"n": 1, "quote": "'\""}, tenant="t")


class Undone(Exception):
    """Ends a transaction without a commit."""


@asynccontextmanager
async def by_asyncpg(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def by_psycopg(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        yield connection


@asynccontextmanager
async def by_psycopg_with_dicts(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
        yield connection


@asynccontextmanager
async def by_blocking_psycopg(url: str) -> AsyncIterator[Any]:
    with contextmanager(lambda: (yield psycopg.connect(url)))() as opened, opened as connection:
        yield connection


@asynccontextmanager
async def by_sqlalchemy(url: str) -> AsyncIterator[Any]:
    from sqlalchemy.ext.asyncio import create_async_engine  # noqa: PLC0415 only where it is installed

    engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
    try:
        async with engine.begin() as connection:
            yield connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def by_a_session(url: str) -> AsyncIterator[Any]:
    from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine  # noqa: PLC0415 only where it is installed

    engine = create_async_engine(url.replace("postgresql:", "postgresql+asyncpg:"))
    try:
        async with AsyncSession(engine) as session, session.begin():
            yield session
    finally:
        await engine.dispose()


@asynccontextmanager
async def by_blocking_sqlalchemy(url: str) -> AsyncIterator[Any]:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


WAYS = [
    by_asyncpg,
    by_psycopg,
    by_psycopg_with_dicts,
    by_blocking_psycopg,
    by_sqlalchemy,
    by_a_session,
    by_blocking_sqlalchemy,
]
Way = Callable[[str], Any]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_committed_together(store: PostgresStore, postgres_url: str, way: Way) -> None:
    """The record and its job are there when the caller commits, and not before."""
    async with way(postgres_url) as connection:
        [receipt] = await store.put(NOTES, [A], now=NOON, connection=connection)
        assert await store.get(NOTES, [A.id]) == []

    [found] = await store.get(NOTES, [A.id])
    assert (found.text, found.attributes, found.tenant) == (A.text, A.attributes, "t")
    assert (receipt.embedding_status, receipt.job_id) == (EmbeddingStatus.PENDING, found.job_id)
    assert [lease.text for lease in await take(store)] == [A.text]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_rolled_back_together(store: PostgresStore, postgres_url: str, way: Way) -> None:
    """Nothing of it is left when the caller rolls back."""

    async def write_and_give_up() -> None:
        async with way(postgres_url) as connection:
            await store.put(NOTES, [A], now=NOON, connection=connection)
            raise Undone

    with pytest.raises(Undone):
        await write_and_give_up()

    assert await store.get(NOTES, [A.id]) == []
    assert (await store.counts())[NOTES].records == 0
    assert await take(store) == []


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_deleted_together(store: PostgresStore, postgres_url: str, way: Way) -> None:
    """A record is gone when the caller commits, not before, and stays if the caller gives up."""
    await store.put(NOTES, [A], now=NOON)

    async def delete_and_give_up() -> None:
        async with way(postgres_url) as connection:
            assert await store.delete(NOTES, [A.id, RecordId("none")], now=NOON, connection=connection) == [A.id]
            raise Undone

    with pytest.raises(Undone):
        await delete_and_give_up()
    assert len(await store.get(NOTES, [A.id])) == 1

    async with way(postgres_url) as connection:
        await store.delete(NOTES, [A.id], purge=True, now=NOON, connection=connection)
        assert len(await store.get(NOTES, [A.id])) == 1

    assert await store.get(NOTES, [A.id]) == []
    assert await take(store) == []


async def test_a_refusal_leaves_the_callers_transaction_alive(store: PostgresStore, postgres_url: str) -> None:
    """The caller may go on after a record that is refused."""
    await store.put(NOTES, [A], now=NOON)

    async with by_asyncpg(postgres_url) as connection:
        refused: list[Awaitable[object]] = [
            store.put(NOTES, [A._replace(tenant="other")], now=NOON, connection=connection),
            store.put(NOTES, [A._replace(text=" ", attributes=None)], now=NOON, connection=connection),
            store.put("nowhere", [A], now=NOON, connection=connection),
        ]
        for act, kind in zip(refused, (Conflict, Invalid, NotFound), strict=True):
            with pytest.raises(kind):
                await act
        await store.put(NOTES, [A._replace(id=RecordId("b"))], now=NOON, connection=connection)

    assert len((await store.records(NOTES)).items) == 2


async def test_a_stranger_is_refused(store: PostgresStore) -> None:
    """What is no connection is named."""
    with pytest.raises(TypeError, match="asyncpg, psycopg, SQLAlchemy or Django"):
        await store.put(NOTES, [A], now=NOON, connection=object())


async def test_an_edit_in_a_transaction_is_an_edit(store: PostgresStore, postgres_url: str) -> None:
    """The answer to a changed text is the same job, pending again."""
    first = await write(store, "A")
    async with by_psycopg(postgres_url) as connection:
        [second] = await store.put(NOTES, [NewRecord(id=RecordId("a"), text="B")], now=NOON, connection=connection)

    assert second.job_id == first.job_id
    assert [lease.text for lease in await take(store)] == ["B"]
