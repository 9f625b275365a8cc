"""The ANN index: when it is made, and that it hides nothing."""

from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio

from embedq.errors import Invalid
from embedq.model import Done, EmbedderName, NewRecord, Query, RecordId, Vector
from embedq.policy.filters import read_filter
from embedq.stores.postgres import PostgresStore
from embedq.stores.postgres.index import shape_of
from embedq.testing.stores.stage import NOON, NOTES, declaration, take

WORTH = 300
FAR = "UPDATE embedq.record SET attributes = '{\"far\": true}' WHERE id = ANY ($1)"
INDEXED = "SELECT indexdef FROM pg_indexes WHERE indexname = 'vector_1_nearest'"

TOLD = "SELECT pg_stat_force_next_flush(); SELECT 1"
LOOKED_AT = """
SELECT t.seq_tup_read + coalesce(t.idx_tup_fetch, 0) FROM pg_stat_user_tables t, pg_stat_clear_snapshot() s
WHERE t.relname = 'vector_1'
"""


@pytest.fixture
def dimensions() -> int:
    return 16


@pytest_asyncio.fixture
async def store(postgres_url: str, dimensions: int) -> AsyncIterator[PostgresStore]:
    """Open a store that indexes early, with vectors of this size."""
    store = await PostgresStore.open(postgres_url, index_from=WORTH)
    embedder = EmbedderName(provider="fake", model="fake", dimensions=dimensions)
    await store.declare(declaration(embedder=embedder), now=NOON)
    yield store
    await store.close()


def vector_number(number: int, dimensions: int) -> Vector:
    return np.random.default_rng(number).standard_normal(dimensions).astype(np.float32)


async def fill(store: PostgresStore, count: int, dimensions: int) -> None:
    """Put records with vectors; one in a hundred is rare."""
    records = [
        NewRecord(id=RecordId(f"r{n}"), text=f"text {n}", attributes={"rare": n % 100 == 0}) for n in range(count)
    ]
    for start in range(0, count, 500):
        await store.put(NOTES, records[start : start + 500], now=NOON)
    while leases := await take(store, limit=500):
        outcomes = [Done(lease, vector_number(int(lease.record_id[1:]), dimensions)) for lease in leases]
        await store.settle(outcomes, now=NOON)


async def test_an_index_is_made_when_vectors_are_worth_it(store: PostgresStore, dimensions: int) -> None:
    """Not before, once, and the nearest is still the nearest."""
    await fill(store, WORTH - 1, dimensions)
    assert await store.finish(now=NOON) == 0
    await fill(store, WORTH, dimensions)

    assert await store.finish(now=NOON) == 1

    assert await store.finish(now=NOON) == 0
    assert "hnsw" in (await store._database.fetchrow(INDEXED))[0]
    hits = await store.search_vector(NOTES, vector_number(7, dimensions), Query(k=3))
    assert (hits[0].id, round(hits[0].score, 4)) == ("r7", 1.0)


async def test_the_index_is_what_finds_them(store: PostgresStore, dimensions: int) -> None:
    """Few of many vectors are looked at, and no setting of the session is left behind."""
    await fill(store, 1000, dimensions)
    assert await store.finish(now=NOON) == 1
    async with store._database._pool.here().connection() as db:
        await db.execute(TOLD)
        before = await db.fetchval(LOOKED_AT)
    await store.search_vector(NOTES, vector_number(1, dimensions), Query(k=3))
    async with store._database._pool.here().connection() as db:
        await db.execute(TOLD)
        looked_at = await db.fetchval(LOOKED_AT) - before
        assert 0 < looked_at < 1000
        assert await db.fetchval("SHOW enable_sort") == "on"


async def test_a_filter_never_cuts_the_answer_short(store: PostgresStore, dimensions: int) -> None:
    """What the index does not offer is found all the same."""
    await fill(store, 1000, dimensions)
    assert await store.finish(now=NOON) == 1

    rare = await store.search_vector(
        NOTES, vector_number(1, dimensions), Query(k=20, filter=read_filter({"rare": True}))
    )
    every = await store.search_vector(NOTES, vector_number(1, dimensions), Query(k=1000))

    assert len(rare) == 10
    assert len(every) == 1000


async def test_what_the_index_gives_up_on_is_found_by_looking_at_everything(
    store: PostgresStore, postgres_url: str, dimensions: int
) -> None:
    """An index stops after so many vectors, however few of them a filter has let pass."""
    await fill(store, 1000, dimensions)
    assert await store.finish(now=NOON) == 1
    [row] = await store._database.fetch("SELECT current_database() AS name")
    await store._database.fetch(f'ALTER DATABASE "{row["name"]}" SET hnsw.max_scan_tuples = 1')
    await store._database.fetch(f'ALTER DATABASE "{row["name"]}" SET hnsw.ef_search = 1')
    impatient = await PostgresStore.open(postgres_url)

    asked = vector_number(1, dimensions)
    stored = np.stack([vector_number(number, dimensions) for number in range(1000)])
    order = np.argsort(-(stored @ asked) / np.linalg.norm(stored, axis=1))
    far = [f"r{number}" for number in order[-300:]]  # too many to look at each, and none of them among the nearest
    await store._database.fetch(FAR, far)

    found = await impatient.search_vector(NOTES, asked, Query(k=10, filter=read_filter({"far": True})))

    assert [hit.id for hit in found] == far[:10]
    await impatient.close()


@pytest.mark.parametrize(
    ("dimensions", "kind", "built"), [(2000, "vector_cosine_ops", 1), (2001, "halfvec_cosine_ops", 1), (4001, "", 0)]
)
async def test_long_vectors_are_indexed_as_far_as_they_can_be(
    store: PostgresStore, dimensions: int, kind: str, built: int
) -> None:
    """Up to 2,000 numbers as they are, up to 4,000 as half floats, above by looking at every one."""
    await fill(store, WORTH, dimensions)

    assert await store.finish(now=NOON) == built

    row = await store._database.fetchrow(INDEXED)
    assert kind in (row[0] if row else "")
    hits = await store.search_vector(NOTES, vector_number(9, dimensions), Query(k=2))
    assert (hits[0].id, round(hits[0].score, 3)) == ("r9", 1.0)


async def test_a_building_that_was_broken_off_is_begun_anew(store: PostgresStore, dimensions: int) -> None:
    """An index that is not whole is not used, and is replaced."""
    await fill(store, WORTH, dimensions)
    await store.finish(now=NOON)
    broken = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'embedq.vector_1_nearest'::regclass"
    await store._database.fetch(broken)
    async with store._database._pool.here().connection() as db:
        shape = await shape_of(db, 1)
    assert shape is not None
    assert not shape.indexed

    assert await store.finish(now=NOON) == 1


async def test_a_query_of_another_length_is_refused(store: PostgresStore) -> None:
    """The message names both lengths."""
    with pytest.raises(Invalid, match="5 numbers"):
        await store.search_vector(NOTES, np.ones(5, np.float32), Query())


async def test_a_vector_of_zeros_has_no_direction(store: PostgresStore, dimensions: int) -> None:
    """It is found last, with a cosine of zero, and looking for it breaks nothing."""
    await store.put(NOTES, [NewRecord(id=RecordId("zero"), text="zero")], now=NOON)
    [lease] = await take(store)
    await store.settle([Done(lease, np.zeros(dimensions, np.float32))], now=NOON)
    await fill(store, 3, dimensions)

    hits = await store.search_vector(NOTES, vector_number(1, dimensions), Query(k=10))
    none = await store.search_vector(NOTES, np.zeros(dimensions, np.float32), Query(k=10))

    assert (hits[-1].id, hits[-1].score) == ("zero", 0.0)
    assert {hit.score for hit in none} == {0.0}
