"""Searching: which way a query is answered, and what the answer says of it."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from embedq.client import Client, ClientOptions, queries
from embedq.embedders.fake import FakeEmbedder
from embedq.embedders.faults import Faults
from embedq.embedding import Embeddings, Purpose
from embedq.errors import Invalid, SearchUnavailable, SettingsError
from embedq.model import Ask, Budget, Done, EmbedderName, SearchMode, WorkerId
from embedq.policy.texts import Limits
from embedq.ports import Embedder
from embedq.stores.sqlite import SqliteStore
from embedq.telemetry import Event, Facts, Telemetry

NAME = EmbedderName(provider="fake", model="")
TEXTS = {"loom": "Call Ada about the loom", "engine": "Charles oils the engine", "rose": "Water the roses"}


class OneEmbedder:
    """Hands out one embedder, or says why there is none."""

    def __init__(self, embedder: Embedder | None) -> None:
        """Hand out this one."""
        self.embedder = embedder

    def canonical(self, name: EmbedderName) -> EmbedderName:
        """Keep the name."""
        return name

    async def get(self, name: EmbedderName) -> Embedder:
        """Hand it out."""
        if self.embedder is None:
            raise SettingsError(f"{name} has no key")
        return self.embedder


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path / "notes.db", telemetry=Telemetry(), limits=Limits())
    yield opened
    await opened.close()


def client_of(
    store: SqliteStore,
    embedder: Embedder | None,
    *,
    budget: Budget | None = None,
    telemetry: Telemetry | None = None,
) -> Client:
    options = ClientOptions(
        embedder=NAME,
        budget=budget,
        query_timeout=timedelta(milliseconds=200),
        semantic_timeout=timedelta(milliseconds=200),
    )
    return Client(store, OneEmbedder(embedder), options=options, telemetry=telemetry or Telemetry())


async def fill(client: Client, store: SqliteStore) -> None:
    """Put three notes, and embed them as a worker would."""
    await client.put("notes", [{"id": id_, "text": text, "attributes": {"kind": id_}} for id_, text in TEXTS.items()])
    space = (await client.collection("notes")).space
    ask = Ask(worker=WorkerId("w"), spaces=[space.id], limit=10, span=timedelta(minutes=5))
    leases = (await store.lease(ask)).leases
    vectors = (await FakeEmbedder(NAME).embed([lease.text or "" for lease in leases], Purpose.DOCUMENT)).vectors
    await store.learn(space.id, vectors.shape[1])
    await store.settle([Done(lease, vector) for lease, vector in zip(leases, vectors, strict=True)])


async def test_each_mode_answers_as_it_is_named(store: SqliteStore) -> None:
    """Semantic scores are cosines, words need no embedder, auto means both."""
    client = client_of(store, FakeEmbedder(NAME))
    await fill(client, store)

    semantic = await client.search("notes", TEXTS["loom"], mode="semantic")
    keyword = await client.search("notes", "engine", mode="keyword")
    auto = await client.search("notes", TEXTS["rose"], k=1)

    assert (semantic.hits[0].id, semantic.mode_used) == ("loom", SearchMode.SEMANTIC)
    assert semantic.hits[0].score == pytest.approx(1.0, abs=1e-5)
    assert ([hit.id for hit in keyword.hits], keyword.mode_used) == (["engine"], SearchMode.KEYWORD)
    assert ([hit.id for hit in auto.hits], auto.mode_used, auto.reason) == (["rose"], SearchMode.HYBRID, None)


async def test_without_an_embedder_words_answer_and_the_answer_says_why(store: SqliteStore) -> None:
    """Auto and hybrid fall back; semantic alone refuses."""
    client = client_of(store, None)
    await client.put("notes", [{"id": "loom", "text": TEXTS["loom"]}])

    for mode in ("auto", "hybrid"):
        answer = await client.search("notes", "loom", mode=mode)
        assert ([hit.id for hit in answer.hits], answer.mode_used) == (["loom"], SearchMode.KEYWORD)
        assert answer.reason == "answered by words: fake has no key"
    with pytest.raises(SearchUnavailable, match="no key"):
        await client.search("notes", "loom", mode="semantic")


async def test_a_store_that_cannot_search_by_vectors_answers_by_words(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FAISS is missing: auto and hybrid say so, semantic refuses, and no further query is embedded for nothing."""
    embedder = FakeEmbedder(NAME)
    client = client_of(store, embedder)
    await fill(client, store)
    monkeypatch.setitem(sys.modules, "faiss", None)

    for mode in ("auto", "hybrid"):
        answer = await client.search("notes", f"loom {mode}", mode=mode)
        assert ([hit.id for hit in answer.hits], answer.mode_used) == (["loom"], SearchMode.KEYWORD)
        assert answer.reason is not None
        assert answer.reason.startswith("answered by words: search by vectors needs FAISS: run pip install")
    with pytest.raises(SearchUnavailable, match=r"pip install 'embedq\[faiss\]'"):
        await client.search("notes", "loom", mode="semantic")
    assert embedder.calls == 1


@pytest.mark.parametrize("faults", ["hang=9", "500=9", "429=9:30", "timeout=9", "nan=9", "refused=9", "401=9"])
async def test_an_embedder_in_trouble_costs_no_answer(store: SqliteStore, faults: str) -> None:
    """Whatever goes wrong with the query's vector, words answer within the limit."""
    client = client_of(store, FakeEmbedder(NAME, faults=Faults.parse(faults)))
    await client.put("notes", [{"id": "loom", "text": TEXTS["loom"]}])

    answer = await client.search("notes", "loom")

    assert answer.mode_used is SearchMode.KEYWORD
    assert answer.reason is not None
    assert [hit.id for hit in answer.hits] == ["loom"]
    with pytest.raises(SearchUnavailable):
        await client.search("notes", "loom", mode="semantic")
    await client.close()


async def test_a_refused_search_reads_as_one_sentence(store: SqliteStore) -> None:
    """What an embedder says ends with a full stop of its own; none is left in mid-sentence."""
    client = client_of(store, FakeEmbedder(NAME, faults=Faults.parse("refused=9")))
    await client.put("notes", [{"id": "loom", "text": TEXTS["loom"]}])

    with pytest.raises(SearchUnavailable) as caught:
        await client.search("notes", "loom", mode="semantic")

    assert str(caught.value).endswith("; mode auto or keyword answers by words")
    assert ".;" not in str(caught.value)
    await client.close()


async def test_a_query_is_embedded_once(store: SqliteStore) -> None:
    """The same words in the same space cost one call, even at the same time."""
    embedder = FakeEmbedder(NAME, faults=Faults.parse("latency=0.01"))
    client = client_of(store, embedder)
    await fill(client, store)

    await asyncio.gather(*(client.search("notes", "loom") for _ in range(5)))
    await client.search("notes", "loom")

    assert embedder.calls == 1


async def test_a_model_that_loads_slowly_is_there_for_the_next_query(store: SqliteStore) -> None:
    """What takes too long goes on behind: the second search does not start from the beginning."""

    class Slow(FakeEmbedder):
        def __init__(self) -> None:
            super().__init__(NAME)
            self.loaded = asyncio.Event()

        async def embed(self, texts: Sequence[str], purpose: Purpose) -> Embeddings:
            await self.loaded.wait()
            return await super().embed(texts, purpose)

    embedder = Slow()
    client = client_of(store, embedder)
    await fill(client, store)
    assert (await client.search("notes", "loom")).mode_used is SearchMode.KEYWORD

    embedder.loaded.set()

    assert (await client.search("notes", "loom")).mode_used is SearchMode.HYBRID
    assert embedder.calls == 1


async def test_queries_take_from_the_fleets_budget(store: SqliteStore) -> None:
    """A remote embedder's limit binds searches too; when it is used up, words answer."""
    embedder = FakeEmbedder(NAME, remote=True)
    client = client_of(store, embedder, budget=Budget(requests=1, interval=timedelta(hours=1)))
    await fill(client, store)

    first = await client.search("notes", "loom")
    second = await client.search("notes", "engine")

    assert (first.mode_used, second.mode_used) == (SearchMode.HYBRID, SearchMode.KEYWORD)
    assert "budget" in (second.reason or "")
    assert embedder.calls == 1


async def test_a_query_is_told_with_its_purpose_and_tokens(store: SqliteStore) -> None:
    """What a query costs is counted beside what documents cost."""
    heard: list[Facts] = []
    embedder = FakeEmbedder(NAME)
    client = client_of(store, embedder, telemetry=Telemetry(lambda event, _, facts: _note(heard, event, facts)))
    await fill(client, store)

    await client.search("notes", "loom")

    assert [(facts["purpose"], facts["texts"], facts["tokens"]) for facts in heard] == [("query", 1, 1)]


def _note(heard: list[Facts], event: Event, facts: Facts) -> None:
    if event is Event.EMBEDDED:
        heard.append(facts)


async def test_queries_take_tokens_from_the_fleets_budget(store: SqliteStore) -> None:
    """A query takes as many tokens as its words have; when there is no room for it, words answer."""
    embedder = FakeEmbedder(NAME, remote=True)
    client = client_of(store, embedder, budget=Budget(requests=None, tokens=4, interval=timedelta(hours=1)))
    await fill(client, store)

    first = await client.search("notes", "twelve bytes")
    second = await client.search("notes", "a loom...")

    assert (first.mode_used, second.mode_used) == (SearchMode.HYBRID, SearchMode.KEYWORD)
    assert embedder.calls == 1


async def test_a_vector_of_other_dimensions_never_meets_the_space(store: SqliteStore) -> None:
    """A provider that changed its mind is no match for what is stored."""

    class Other(FakeEmbedder):
        async def embed(self, texts: Sequence[str], purpose: Purpose) -> Embeddings:  # noqa: ARG002 the contract's
            return Embeddings(vectors=np.ones((len(texts), 7), np.float32))

    client = client_of(store, Other(NAME))
    await fill(client, store)

    answer = await client.search("notes", "loom")

    assert answer.mode_used is SearchMode.KEYWORD
    assert "7 dimensions" in (answer.reason or "")


async def test_a_collection_declared_anew_elsewhere_is_searched_in_its_new_space(
    store: SqliteStore, tmp_path: Path
) -> None:
    """What this process knows of it is out of date: the query is embedded again, for the embedder it has now."""
    client = client_of(store, FakeEmbedder(NAME))
    await fill(client, store)
    assert (await client.search("notes", "loom", mode="semantic")).hits
    elsewhere = await SqliteStore.open(tmp_path / "notes.db", telemetry=Telemetry(), limits=Limits())
    other = client_of(elsewhere, FakeEmbedder(NAME))
    await other.drop("notes", confirm="notes")
    await other.declare("notes", embedder=EmbedderName(provider="fake", model="other"))
    await fill(other, elsewhere)

    answer = await client.search("notes", "loom", mode="semantic")

    assert (await client.collection("notes")).declaration.embedder.model == "other"
    assert len(answer.hits) == len(TEXTS)
    await elsewhere.close()


async def test_filters_and_tenants_hold(store: SqliteStore) -> None:
    """A filter takes a value or a list of values; a tenant sees its own records only."""
    client = client_of(store, FakeEmbedder(NAME))
    await fill(client, store)
    await client.put("notes", [{"id": "theirs", "text": "their loom", "tenant": "them"}])

    one = await client.search("notes", "loom", filter={"kind": "loom"})
    some = await client.search("notes", "loom", filter={"kind": ["rose", "engine"]}, mode="semantic")
    theirs = await client.search("notes", "loom", tenant="them", mode="keyword")

    assert [hit.id for hit in one.hits] == ["loom"]
    assert {hit.id for hit in some.hits} == {"rose", "engine"}
    assert [hit.id for hit in theirs.hits] == ["theirs"]


@pytest.mark.parametrize("k", [0, -1, 1001, 1_000_000, True, 2.5])
async def test_a_wrong_k_is_refused(store: SqliteStore, k: int) -> None:
    """1 to 1000, and whole."""
    client = client_of(store, None)
    await client.declare("notes")

    with pytest.raises(Invalid, match="1 to 1000"):
        await client.search("notes", "x", k=k)


@pytest.mark.parametrize("query", ["", "  \n", "x" * 32_769, "\ud800", "a\0b", 5])
async def test_a_wrong_query_is_refused(store: SqliteStore, query: str) -> None:
    """Empty, too long, or no text."""
    client = client_of(store, None)
    await client.declare("notes")

    with pytest.raises(Invalid):
        await client.search("notes", query)
    with pytest.raises(Invalid, match="mode"):
        await client.search("notes", "x", mode="psychic")


class Stubborn(FakeEmbedder):
    """An embedder that does not answer, or fails in a way that nobody foresaw."""

    error: Exception | None = None

    def __init__(self) -> None:
        """Count the calls that are under way."""
        super().__init__(NAME)
        self.calls = 0

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Embeddings:
        """Fail, or wait until the call is cancelled."""
        del texts, purpose
        if self.error is not None:
            raise self.error
        self.calls += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.calls -= 1
        raise AssertionError


async def test_a_query_that_is_not_answered_ends_at_the_deadline(store: SqliteStore) -> None:
    """Nobody waits for it any more, but its call does not stay open for ever."""
    embedder = Stubborn()
    options = ClientOptions(
        embedder=NAME, query_timeout=timedelta(milliseconds=20), attempt_deadline=timedelta(milliseconds=100)
    )
    client = Client(store, OneEmbedder(embedder), options=options, telemetry=Telemetry())
    await fill(client, store)

    answer = await client.search("notes", "loom")

    assert (answer.mode_used, embedder.calls) == (SearchMode.KEYWORD, 1)
    async with asyncio.timeout(10):
        while embedder.calls:  # noqa: ASYNC110 only the embedder knows
            await asyncio.sleep(0.01)


async def test_queries_that_are_not_answered_are_bounded(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than so many is answered by words at once, and opens no call."""
    monkeypatch.setattr(queries, "MOST_RUNNING", 3)
    embedder = Stubborn()
    client = client_of(store, embedder)
    await fill(client, store)

    answers = await asyncio.gather(*(client.search("notes", f"loom {number}") for number in range(5)))

    assert embedder.calls == 3
    assert {answer.mode_used for answer in answers} == {SearchMode.KEYWORD}
    assert sum("3 other queries" in (answer.reason or "") for answer in answers) == 2
    await client.close()


async def test_a_provider_that_hangs_leaves_other_embedders_their_queries(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is each space's own: a collection with another embedder is still searched by meaning."""
    monkeypatch.setattr(queries, "MOST_RUNNING", 2)
    stubborn, well = Stubborn(), FakeEmbedder(NAME)

    class Two(OneEmbedder):
        async def get(self, name: EmbedderName) -> Embedder:
            return stubborn if name.model == "stubborn" else well

    options = ClientOptions(embedder=NAME, query_timeout=timedelta(milliseconds=50))
    client = Client(store, Two(well), options=options, telemetry=Telemetry())
    await fill(client, store)
    await client.declare("others", embedder=EmbedderName(provider="fake", model="stubborn"))
    for number in range(3):
        await client.search("others", f"loom {number}")

    assert stubborn.calls == 2
    assert (await client.search("notes", "loom")).mode_used is SearchMode.HYBRID
    await client.close()


async def test_an_error_that_was_not_foreseen_is_answered_by_words(store: SqliteStore) -> None:
    """Its message may quote the query, so only its kind is told."""
    embedder = Stubborn()
    embedder.error = OverflowError("about the loom")
    client = client_of(store, embedder)
    await fill(client, store)

    answer = await client.search("notes", "loom")

    assert (answer.mode_used, [hit.id for hit in answer.hits]) == (SearchMode.KEYWORD, ["loom"])
    assert answer.reason is not None
    assert "failed with OverflowError" in answer.reason
    assert "about" not in answer.reason
