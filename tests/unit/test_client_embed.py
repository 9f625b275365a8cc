"""Vectors for those who search by themselves: the same way as those of queries."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.unit.test_client_search import NAME, TEXTS, Stubborn, client_of, fill

from embedq.client import texts
from embedq.embedders.fake import FakeEmbedder
from embedq.embedders.faults import Faults
from embedq.embedding import EmbedderLimits, Embeddings, Purpose
from embedq.errors import Invalid, NotFound, TooLarge, Unavailable
from embedq.model import Budget
from embedq.stores.sqlite import SqliteStore


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    opened = await SqliteStore.open(tmp_path / "notes.db")
    yield opened
    await opened.close()


class Heard(FakeEmbedder):
    """Notes what it is asked for, two texts at most in a call."""

    limits = EmbedderLimits(inputs=2)

    def __init__(self) -> None:
        """Have heard nothing."""
        super().__init__(NAME)
        self.heard: list[tuple[list[str], Purpose]] = []

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> Embeddings:
        """Note it, and answer."""
        self.heard.append((list(texts), purpose))
        return await super().embed(texts, purpose)


async def test_a_text_has_the_vector_that_its_record_has(store: SqliteStore) -> None:
    """In the collection's space, whose name is told; a float32 row per text, in their order."""
    client = client_of(store, FakeEmbedder(NAME))
    await fill(client, store)

    found = await client.embed([TEXTS["rose"], TEXTS["loom"]], collection="notes", purpose="document")

    record = await client.get("notes", "loom", with_vector=True)
    assert found.vectors.dtype == np.float32
    assert np.array_equal(found.vectors[1], record.vector)
    assert str(found.space) == "fake@384"


async def test_an_embedder_may_be_named_that_no_collection_uses(store: SqliteStore) -> None:
    """Nothing is stored for it, and without a name it is the default."""
    client = client_of(store, FakeEmbedder(NAME))

    named, default = await client.embed(["x"], embedder="fake"), await client.embed(["x"])

    assert str(named.space) == "fake@384"
    assert np.array_equal(named.vectors, default.vectors)
    assert await store.spaces() == []


async def test_many_texts_are_few_calls(store: SqliteStore) -> None:
    """As many in one call as the embedder takes, for the purpose that was given."""
    embedder = Heard()
    client = client_of(store, embedder)

    await client.embed(["a", "b", "c"], purpose="document")

    assert embedder.heard == [(["a", "b"], Purpose.DOCUMENT), (["c"], Purpose.DOCUMENT)]


async def test_a_query_is_embedded_once_with_those_of_searches(store: SqliteStore) -> None:
    """What a search has asked for costs no second call, and a document's vector is none of a query's."""
    embedder = Heard()
    client = client_of(store, embedder)
    await fill(client, store)

    await client.search("notes", "loom", mode="semantic")
    first = await client.embed(["loom"], collection="notes")
    first.vectors[:] = 0  # what a caller does to its answer is the caller's
    second = await client.embed(["loom"], collection="notes")
    await client.embed(["loom"], collection="notes", purpose="document")

    assert [purpose for _, purpose in embedder.heard] == [Purpose.QUERY, Purpose.DOCUMENT]
    assert second.vectors.any()


@pytest.mark.parametrize("faults", ["500=9", "429=9:30", "nan=9", "refused=9", "401=9"])
async def test_an_embedder_in_trouble_says_why(store: SqliteStore, faults: str) -> None:
    """There is nothing to fall back to: the error names the reason."""
    client = client_of(store, FakeEmbedder(NAME, faults=Faults.parse(faults)))

    with pytest.raises(Unavailable, match=r"no vector: .+"):
        await client.embed(["loom"])


async def test_an_embedder_that_hangs_is_not_waited_for_for_long(store: SqliteStore) -> None:
    """A query waits as long as a semantic search would."""
    client = client_of(store, Stubborn())

    with pytest.raises(Unavailable, match=r"did not answer within 0\.2 s"):
        await asyncio.wait_for(client.embed(["loom"]), 30)
    await client.close()


async def test_it_takes_from_the_fleets_budget(store: SqliteStore) -> None:
    """Like a search's query, and one call is one request, however many texts it has."""
    embedder = FakeEmbedder(NAME)
    embedder.remote = True
    client = client_of(store, embedder, budget=Budget(requests=1, interval=timedelta(hours=1)))
    await client.declare("notes")

    await client.embed(["a", "b", "c"], collection="notes")

    with pytest.raises(Unavailable, match="budget"):
        await client.embed(["d"], collection="notes")


@pytest.mark.parametrize(
    ("given", "options", "error"),
    [
        ("loom", {}, Invalid),
        ([], {}, Invalid),
        ([""], {}, Invalid),
        ([" "], {"purpose": "document"}, Invalid),
        ([5], {}, Invalid),
        (["a\0"], {"purpose": "document"}, Invalid),
        (["a"], {"purpose": "fun"}, Invalid),
        (["a"], {"embedder": "nobody:knows@x"}, Invalid),
        (["a"], {"embedder": "fake", "collection": "notes"}, Invalid),
        (["a"], {"collection": "none"}, NotFound),
        (["a"] * (texts.MAX_TEXTS + 1), {}, TooLarge),
        (["a" * (1 << 19)] * 3, {"purpose": "document"}, TooLarge),
        (["a" * (1 << 16)], {}, Invalid),
    ],
)
async def test_what_cannot_be_embedded_is_refused(
    store: SqliteStore, given: Sequence[str], options: dict[str, str], error: type[Exception]
) -> None:
    """Before anything is sent."""
    embedder = Heard()
    client = client_of(store, embedder)
    await client.declare("notes")

    with pytest.raises(error):
        await client.embed(given, **options)

    assert embedder.heard == []
