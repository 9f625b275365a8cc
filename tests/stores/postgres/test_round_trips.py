"""How often a search asks the database."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest

from embedq.app import App, load, start
from embedq.model import Ask, Done, Lease, WorkerId
from embedq.stores.postgres import database
from embedq.testing.stores.stage import LEASE

MOST = 3
DIMENSIONS = 16
MODES = ("keyword", "semantic", "hybrid", "auto")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that is sent on a connection of the store, transactions and settings among them."""
    sent: list[str] = []
    connect = database.connect_to_installed

    async def counted(*given: Any) -> Any:  # noqa: ANN401 as it comes
        connection = await connect(*given)
        connection.add_query_logger(lambda query: sent.append(query.query))
        return connection

    monkeypatch.setattr(database, "connect_to_installed", counted)
    return sent


@pytest.fixture
async def app(asked: list[str], postgres_url: str) -> AsyncIterator[App]:
    """A collection with some vectors, that was searched before."""
    del asked
    async with start(load(url=postgres_url, embedder=f"fake@{DIMENSIONS}"), quiet=True) as opened:
        records = [{"id": str(n), "text": f"loom {n}", "attributes": {"even": n % 2 == 0}} for n in range(20)]
        await opened.client.put("notes", records)
        await embed_all(opened)
        for mode in MODES:
            await opened.client.search("notes", "loom", mode=mode)
        yield opened


async def embed_all(app: App) -> None:
    spaces = [space.id for space in await app.store.spaces()]
    ask = Ask(worker=WorkerId("w"), spaces=spaces, limit=100, span=LEASE)
    leases: Sequence[Lease] = (await app.store.lease(ask)).leases
    vectors = np.random.default_rng(1).standard_normal((len(leases), DIMENSIONS)).astype(np.float32)
    await app.store.settle([Done(lease, vector) for lease, vector in zip(leases, vectors, strict=True)])


@pytest.mark.parametrize("filter_", [{}, {"even": True}], ids=["all", "filtered"])
@pytest.mark.parametrize("mode", MODES)
async def test_a_search_asks_the_database_three_times_at_most(
    app: App, asked: list[str], mode: str, filter_: dict[str, Any]
) -> None:
    """The collection, the rankings, what is shown of the hits and the freshness, all told."""
    app.client._catalogue._read_at = 0.0  # as if it had been searched long ago
    asked.clear()

    answer = await app.client.search("notes", "loom", mode=mode, filter=filter_)

    assert len(answer.hits) == 10
    assert len(asked) <= MOST, "\n".join(asked)
