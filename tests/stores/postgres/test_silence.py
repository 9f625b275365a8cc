"""Nobody waits for ever: not for a host that says nothing, not for a transaction that does not end."""

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.silence import Between

from embedq.errors import StoreError
from embedq.model import RecordId
from embedq.stores.postgres import PostgresStore, connection
from embedq.stores.postgres.address import parse
from embedq.testing.stores.stage import NOTES, write

SHORT = 1.0  # seconds


@pytest.fixture
def postgres_version() -> int:
    """Say that these facts are the driver's and the network's: one version will do."""
    return 18


@pytest_asyncio.fixture
async def between(postgres_url: str) -> AsyncIterator[Between]:
    async with Between(urlsplit(postgres_url).port or 0) as made:
        yield made


@pytest_asyncio.fixture
async def far(
    store: PostgresStore, between: Between, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[PostgresStore]:
    """The same database by way of a host that can go silent; patience is short."""
    await write(store, "A")
    monkeypatch.setattr(connection, "ANSWER_SECONDS", SHORT)
    monkeypatch.setattr(connection, "CONNECT_SECONDS", SHORT)
    there = urlsplit(postgres_url)
    opened = await PostgresStore.open(there._replace(netloc=f"postgres@127.0.0.1:{between.port}").geturl())
    assert len(await opened.get(NOTES, [RecordId("a")])) == 1
    yield opened
    await opened.close()


async def test_a_swallowed_statement_is_said_again_on_another_connection(far: PostgresStore, between: Between) -> None:
    """A read or put whose answer never comes is given up after a while, and goes through where new connections do."""
    between.swallow()

    async with asyncio.timeout(SHORT * 10):
        await write(far, "B", "b")
        assert len(await far.get(NOTES, [RecordId("a"), RecordId("b")])) == 2


async def test_a_host_that_says_nothing_any_more_is_told_as_trouble(far: PostgresStore, between: Between) -> None:
    """With new connections as silent as the old ones the caller gets an error in time, and can close the store."""
    between.takes_new = False
    between.swallow()

    async with asyncio.timeout(SHORT * 20):
        with pytest.raises(StoreError, match="cannot be reached"):
            await far.get(NOTES, [RecordId("a")])
        await far.close()


async def test_a_silent_host_does_not_hide_the_next_one(
    store: PostgresStore, between: Between, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several hosts each has its own time to answer, and the one that did is asked first from then on."""
    await write(store, "A")
    monkeypatch.setattr(connection, "CONNECT_SECONDS", SHORT)
    between.takes_new = False
    there = urlsplit(postgres_url)
    hosts = f"postgres@127.0.0.1:{between.port},127.0.0.1:{there.port}"

    opened = await PostgresStore.open(there._replace(netloc=hosts).geturl())
    async with asyncio.timeout(SHORT * 0.9):  # no time is lost on the silent one again
        assert len(await opened.get(NOTES, [RecordId("a")])) == 1
    await opened.close()


def test_the_host_that_answered_stands_first() -> None:
    """The order is that of the URL until one has answered; each keeps user, database and options."""
    address = parse("postgresql://u:p@a:1,b:2,c/db?target_session_attrs=read-write")
    tail = "/db?target_session_attrs=read-write"
    assert address.hosts == [f"postgresql://u:p@{host}{tail}" for host in ("a:1", "b:2", "c")]

    address.prefer(address.hosts[1])

    assert address.hosts == [f"postgresql://u:p@{host}{tail}" for host in ("b:2", "a:1", "c")]


async def test_a_put_does_not_wait_for_ever_behind_a_transaction(
    store: PostgresStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that somebody holds in an open transaction: the server gives up for us, and nothing is written."""
    await write(store, "A")
    monkeypatch.setattr(connection, "STATEMENT_SECONDS", SHORT)
    other = await PostgresStore.open(postgres_url)
    holder = await asyncpg.connect(postgres_url)

    async with holder.transaction():
        await holder.execute("SELECT FROM embedq.record FOR UPDATE")
        with pytest.raises(StoreError, match="holds what is to be written: nothing was"):
            await write(other, "B")

    [found] = await store.get(NOTES, [RecordId("a")])
    assert found.text == "A"
    await holder.close()
    await other.close()
