"""What a search or a list that is narrowed to few records reads: these, and not the collection."""

import asyncio
import json
from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.tables import attach, catch_up
from tests.stores.postgres.test_plans import Act, _tell, read_by

from embedq.conditions import Selection
from embedq.errors import Conflict, Invalid
from embedq.model import NewRecord, Query, RecordId
from embedq.policy.filters import read_filter
from embedq.policy.matching import matches
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS, NOON, NOTES, declaration, vector_of, write

MANY = 20_000
FEW = MANY // 1000  # records of a tenant, or of a value
SMALL = 20  # records of another collection of the same space
MOST_READ = 5_000  # rows of a table and its indexes, each counted
FILL = f"""
SET search_path = embedq, public;
INSERT INTO record (collection, id, hash, text, attributes, tenant, created_at, updated_at, words)
  SELECT 1, 'fill' || n, sha256(n::text::bytea), 'common text ' || n, jsonb_build_object(
    'rare', n % 1000, 'half', n % 2, 'tags', jsonb_build_array('tag ' || n % 1000)), 'tenant ' || n % 1000,
    now(), now(), indexed_words('english', 1, 'common text ' || n)
  FROM generate_series(1, {MANY}) n;
INSERT INTO record (collection, id, hash, text, attributes, created_at, updated_at, words)
  SELECT 2, 'fill' || n, sha256(n::text::bytea), 'common text ' || n, '{{}}', now(), now(),
    indexed_words('english', 2, 'common text ' || n)
  FROM generate_series(1, {SMALL}) n;
INSERT INTO vector_1 SELECT x.rid, x.collection, false, x.hash, (
  SELECT array_agg(get_byte(x.hash, i)) FROM generate_series(1, {DIMENSIONS}) i)::vector FROM record x;
INSERT INTO tally (collection, completed, records) VALUES (1, {MANY}, {MANY}), (2, {SMALL}, {SMALL});
"""  # noqa: S608 put together from constants
WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted"
ASKED = vector_of("asked")
NARROW: dict[str, Act] = {
    "a tenant": lambda store: store.search_vector(NOTES, ASKED, Query(k=10, tenant="tenant 7")),
    "no such tenant": lambda store: store.search_vector(NOTES, ASKED, Query(k=10, tenant="nobody")),
    "a value": lambda store: store.search_vector(NOTES, ASKED, Query(k=10, filter=read_filter({"rare": 7}))),
    "some values": lambda store: store.search_vector(NOTES, ASKED, Query(k=10, filter=read_filter({"rare": [7, 8]}))),
    "a value in a list": lambda store: store.search_vector(
        NOTES, ASKED, Query(k=10, filter=read_filter({"tags": "tag 7"}))
    ),
    "a rare and a common value": lambda store: store.search_vector(
        NOTES, ASKED, Query(k=10, filter=read_filter({"half": 1, "rare": 7}))
    ),
    "no such value": lambda store: store.search_vector(NOTES, ASKED, Query(k=10, filter=read_filter({"rare": -1}))),
    "a common value": lambda store: store.search_vector(NOTES, ASKED, Query(k=10, filter=read_filter({"half": 1}))),
    "a small collection": lambda store: store.search_vector("small", ASKED, Query(k=10)),
    "rare words": lambda store: store.search_words(NOTES, "12345", Query(k=10, tenant="tenant 345")),
    "a small collection's words": lambda store: store.search_words("small", "common", Query(k=10)),
    "a list": lambda store: store.records(NOTES, tenant="tenant 7", limit=20),
}


@pytest.fixture(params=["auto", "force_generic_plan", "force_custom_plan"])
def plans(request: pytest.FixtureRequest) -> str:
    """Say how the server plans."""
    return str(request.param)


@pytest_asyncio.fixture
async def full(postgres_url: str, plans: str) -> AsyncIterator[PostgresStore]:
    """Open a store with many indexed vectors."""
    db = await asyncpg.connect(postgres_url)
    database = await db.fetchval("SELECT current_database()")
    await db.execute(f'ALTER DATABASE "{database}" SET plan_cache_mode = {plans}')
    store = await PostgresStore.open(postgres_url, index_from=MANY)
    for name in (NOTES, "small"):
        collection = await store.declare(declaration(name), now=NOON)
    await store.learn(collection.space.id, DIMENSIONS)
    await db.execute(FILL)
    assert await store.finish(now=NOON) == 1
    await db.execute("ANALYZE")
    await _tell(db)
    yield store
    await store.close()
    await db.close()


@pytest.mark.parametrize("postgres_version", [18])
async def test_a_narrow_search_reads_few_rows(full: PostgresStore, postgres_url: str) -> None:
    """A tenant's or a value's records are found by an index, and a common value by that of the vectors."""
    read = {name: await read_by(full, postgres_url, act) for name, act in NARROW.items()}

    too_much = {name: tables for name, tables in read.items() if max(tables.values(), default=0) > MOST_READ}
    assert too_much == {}


@pytest.mark.parametrize("plans", ["auto"])
@pytest.mark.parametrize("postgres_version", [18])
@pytest.mark.parametrize("k", [1, 1000])
async def test_a_narrow_search_finds_every_match(full: PostgresStore, k: int) -> None:
    """However few match, and by whichever way they are found: the nearest of them, none left out."""
    for query, number in (
        (Query(k=k, tenant="tenant 7"), FEW),
        (Query(k=k, filter=read_filter({"rare": 7, "half": 1})), FEW),
        (Query(k=k, filter=read_filter({"half": 1})), MANY // 2),
        (Query(k=k, filter=read_filter({"rare": list(range(100))})), 100 * FEW),
        (Query(k=k, filter=read_filter({"rare": {"lt": 100}})), 100 * FEW),
    ):
        hits = await full.search_vector(NOTES, ASKED, query)
        assert len({hit.id for hit in hits}) == len(hits) == min(k, number)
        assert [hit.score for hit in hits] == pytest.approx(sorted((hit.score for hit in hits), reverse=True))
        assert query.filter is None or all(matches(query.filter, hit.attributes) for hit in hits)


async def test_a_table_is_filtered_by_its_attributes_alone(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A name that is none of them would match nothing, and is refused with those that are."""
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, body text, rank text, shop text)")
    await db.execute("INSERT INTO docs VALUES (1, 'one', 'high', 'north')")
    await attach(store, into=None, attributes=("rank", "shop"))
    await catch_up(store)
    asked = vector_of("one")

    assert len(await store.search_vector("docs", asked, Query(filter=read_filter({"rank": "high"})))) == 1
    assert len(await store.search_words("docs", "one", Query(filter=read_filter({"shop": ["north"]})))) == 1
    with pytest.raises(Invalid, match="'docs' cannot be filtered by 'body': its attributes are rank, shop"):
        await store.search_vector("docs", asked, Query(filter=read_filter({"rank": "high", "body": "one"})))
    with pytest.raises(Invalid, match="'docs' cannot be filtered by 'body': its attributes are rank, shop"):
        await store.search_words("docs", "one", Query(filter=read_filter({"body": "one"})))


async def test_a_table_without_attributes_says_so(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The message says what to do about it."""
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, body text)")
    await attach(store, into=None)

    with pytest.raises(Invalid, match="attached without attributes"):
        await store.search_words("docs", "one", Query(filter=read_filter({"body": "one"})))


async def test_records_of_ones_own_are_filtered_by_anything(store: PostgresStore) -> None:
    """They carry any attributes, so a name that none has matches nothing."""
    assert await store.search_words(NOTES, "one", Query(filter=read_filter({"unheard": "of"}))) == []


async def test_a_searcher_cannot_send_sql(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The function runs as its owner, so it takes conditions and a few words, and leaves out all else."""
    await write(store, "one")
    sent = json.dumps([{"path": "$.a'; DROP TABLE x; --"}, "OR", "true", ") OR (true", {"path": "$.b"}])

    written = await db.fetchval("SELECT embedq.conditions($1::jsonb)", sent)

    assert written == "x.attributes @? '$.a''; DROP TABLE x; --' OR x.attributes @? '$.b'"


@pytest.mark.parametrize("sent", [[")", "OR", "("], ["("], [")"]])
async def test_a_searcher_cannot_leave_the_parentheses(
    db: asyncpg.Connection, store: PostgresStore, sent: list[str]
) -> None:
    """Behind them it would be past the tenant and the collection."""
    del store
    path = {"path": "$"}

    assert await db.fetchval("SELECT embedq.conditions($1::jsonb)", json.dumps([path, *sent, path])) == "false"


async def test_what_stops_matching_while_it_is_deleted_stays(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A change that is under way when the deletion looks is waited for, and then looked at."""
    records = [NewRecord(id=RecordId(name), text="text", attributes={"old": True}) for name in ("a", "b")]
    await store.put(NOTES, records)
    wanted = read_filter({"old": True})
    assert wanted is not None
    async with db.transaction():
        await db.execute("""UPDATE embedq.record SET attributes = '{"old": false}' WHERE id = 'a'""")
        deleting = asyncio.create_task(store.delete_where(NOTES, Selection(filter=wanted)))
        while not await db.fetchval(WAITS):  # noqa: ASYNC110 only the database knows
            await asyncio.sleep(0.01)

    assert (await deleting).items == ["b"]
    assert [record.id for record in (await store.records(NOTES)).items] == ["a"]


async def test_a_tables_list_is_filtered_by_its_attributes_alone(store: PostgresStore, db: asyncpg.Connection) -> None:
    """As a search is; and its rows are not deleted by a filter."""
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, body text, at timestamptz)")
    await db.execute("INSERT INTO docs VALUES (1, 'one', '2026-01-31 10:00+02'), (2, 'two', '2026-02-28 10:00+02')")
    await attach(store, into=None, attributes=("at",))
    await catch_up(store)
    early = read_filter({"at": {"lt": "2026-02-01"}})
    assert early is not None

    assert [record.text for record in (await store.records("docs", wanted=early)).items] == ["one"]
    with pytest.raises(Invalid, match="'docs' cannot be filtered by 'body': its attributes are at"):
        await store.records("docs", wanted=read_filter({"body": "one"}))
    with pytest.raises(Conflict):
        await store.delete_where("docs", Selection(filter=early))
