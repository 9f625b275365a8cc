"""Searches of the ready roles with an embedder elsewhere: they spend the fleet's budget, and obey a 429."""

from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.roles import Roles

from embedq.client import Client, ClientOptions
from embedq.embedders.fake import FakeEmbedder
from embedq.embedders.faults import Faults
from embedq.errors import SearchUnavailable
from embedq.model import Budget, EmbedderName, Query, SearchMode, SpaceId
from embedq.policy.filters import read_filter
from embedq.ports import Embedder
from embedq.stores.postgres import PostgresStore
from embedq.telemetry import Telemetry
from embedq.testing.stores.stage import NOON, NOTES, declaration, embed_all, vector_of, write

EIGHT = EmbedderName(provider="fake", model="fake", dimensions=8)
SPACE = SpaceId("fake:fake@8/1")
SEARCHERS = pytest.mark.parametrize("who", ["reader", "writer", "worker"])


class Given:
    """Hands out one embedder."""

    def __init__(self, embedder: FakeEmbedder) -> None:
        """Hand out this one."""
        self.embedder = embedder

    def canonical(self, name: EmbedderName) -> EmbedderName:
        """Keep the name."""
        return name

    async def get(self, name: EmbedderName) -> Embedder:
        """Hand it out."""
        del name
        return self.embedder


def client_of(store: PostgresStore, embedder: FakeEmbedder, *, requests: int = 100) -> Client:
    """Search with this embedder, within a budget."""
    span = timedelta(seconds=20)
    budget = Budget(requests=requests, interval=timedelta(hours=1))
    options = ClientOptions(embedder=EIGHT, budget=budget, query_timeout=span, semantic_timeout=span)
    return Client(store, Given(embedder), options=options, telemetry=Telemetry())


@pytest_asyncio.fixture
async def filled(roles: Roles) -> AsyncIterator[Roles]:
    """Embed one record."""
    store = await PostgresStore.open(roles.owner)
    await store.declare(declaration(embedder=EIGHT), now=NOON)
    await write(store, "weaving", "a")
    await embed_all(store)
    await store.close()
    yield roles


@SEARCHERS
async def test_a_search_spends_the_fleets_budget(filled: Roles, who: str) -> None:
    """Whoever may read may search; when the budget is used up, the answer says so."""
    store = await PostgresStore.open(getattr(filled, who))
    client = client_of(store, FakeEmbedder(EIGHT, remote=True), requests=1)

    answer = await client.search(NOTES, "weaving", mode="semantic")
    assert ([hit.id for hit in answer.hits], answer.mode_used) == (["a"], SearchMode.SEMANTIC)
    assert (await store.budgets())[SPACE]["requests"] == 1
    with pytest.raises(SearchUnavailable, match="is used up"):
        await client.search(NOTES, "spinning", mode="semantic")
    await client.close()
    await store.close()


@SEARCHERS
async def test_whoever_may_read_may_filter_by_dates(filled: Roles, who: str) -> None:
    """By words and by vector, and lists: what reads a moment is open to all of them."""
    store = await PostgresStore.open(getattr(filled, who))
    wanted = read_filter({"$not": {"at": {"gte": "2026-01-31"}}})
    query = Query(filter=wanted)

    assert [hit.id for hit in await store.search_words(NOTES, "weaving", query)] == ["a"]
    assert [hit.id for hit in await store.search_vector(NOTES, vector_of("weaving"), query)] == ["a"]
    assert [record.id for record in (await store.records(NOTES, wanted=wanted)).items] == ["a"]
    await store.close()


@SEARCHERS
async def test_a_search_obeys_a_provider_that_asks_to_wait(filled: Roles, who: str) -> None:
    """Words answer; who may not hold the whole fleet holds itself, and asks no second time."""
    store = await PostgresStore.open(getattr(filled, who))
    embedder = FakeEmbedder(EIGHT, remote=True, faults=Faults.parse("429=1:30"))
    client = client_of(store, embedder)

    for words in ("weaving", "weaving again"):
        answer = await client.search(NOTES, words)
        assert answer.mode_used is SearchMode.KEYWORD
    assert answer.reason is not None
    assert "is used up for" in answer.reason
    assert embedder.calls == 1
    assert ((await store.budgets())[SPACE]["held_seconds"] > 0) is (who == "worker")
    await client.close()
    await store.close()


@pytest.mark.parametrize("asked", ["100, NULL, '1 us', 1, 0, NULL", "100, NULL, '1 min', 1, 0, '2100-01-01'"])
async def test_a_reader_clears_no_log_of_what_was_spent(filled: Roles, asked: str) -> None:
    """By a budget of a short window, or a moment far ahead: workers would ask a provider more than it allows."""
    worker, reader = await asyncpg.connect(filled.worker), await asyncpg.connect(filled.reader)
    most = "SELECT embedq.take_budget(1, 60, NULL, '1 hour', 50, 0, NULL)"
    assert not await worker.fetchval(most)

    assert not await reader.fetchval(f"SELECT embedq.take_budget(1, {asked})")

    assert await worker.fetchval(most) > timedelta(minutes=59)
    await worker.close()
    await reader.close()


async def test_a_reader_whose_budget_is_used_up_holds_nobody(filled: Roles) -> None:
    """It is told how long to wait; what it says of a budget stops no worker for a day."""
    worker, reader = await asyncpg.connect(filled.worker), await asyncpg.connect(filled.reader)
    tight = "SELECT embedq.take_budget(1, 1, NULL, '1 day', 1, 0, NULL)"
    assert not await reader.fetchval(tight)

    assert await reader.fetchval(tight) > timedelta(hours=23)

    assert not await worker.fetchval("SELECT embedq.take_budget(1, 100, NULL, '1 min', 1, 0, NULL)")
    await worker.close()
    await reader.close()


@pytest.mark.parametrize(
    "asked",
    [
        "100, NULL, '1 min', 0, 0",
        "100, NULL, '1 min', -5, 0",
        "100, NULL, '1 min', NULL, 0",
        "100, NULL, '1 min', 2000000, 0",
        "100, 100, '1 min', 1, -1",
        "100, 100, '1 min', 1, 2000000000000",
        "0, NULL, '1 min', 1, 0",
        "1, NULL, '900 years', 1, 0",
        "1, NULL, '0 s', 1, 0",
    ],
)
async def test_a_reader_takes_only_what_a_query_takes(filled: Roles, asked: str) -> None:
    """No amount makes room for more, none stops everybody for years, and no moment is out of time."""
    db = await asyncpg.connect(filled.reader)
    with pytest.raises(asyncpg.NumericValueOutOfRangeError):
        await db.fetchval(f"SELECT embedq.take_budget(1, {asked}, NULL)")
    with pytest.raises(asyncpg.DatetimeFieldOverflowError):
        await db.fetchval("SELECT embedq.take_budget(1, 1, NULL, '1 min', 1, 0, '20000-01-01')")
    await db.close()
