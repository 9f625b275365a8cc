"""Tenants, attributes and lanes come from the table's columns."""

import asyncpg
import pytest
from tests.stores.postgres.tables import attach, catch_up, gather, one, records

from embedq.errors import Invalid
from embedq.model import NewRecord, Priority, Query, RecordId
from embedq.policy.filters import read_filter
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS, NOTES, declaration, take, vector_of

CREATE = f"""
CREATE TABLE docs (id int PRIMARY KEY, body text, e vector({DIMENSIONS}), owner text, colour text, size int,
  urgency text)
"""


async def found(store: PostgresStore, text: str, **query: object) -> list[str]:
    """List whom a search for a text finds."""
    hits = await store.search_vector("docs", vector_of(text), Query(k=10, **query))  # type: ignore[arg-type]
    return sorted(str(hit.id) for hit in hits)


async def lanes(store: PostgresStore) -> list[str]:
    """List the pending records in the order they are leased."""
    return [str(lease.record_id) for lease in await take(store, limit=100)]


async def test_a_tenant_sees_its_own_rows(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A row that changes its owner is found by the new one, and costs no embedding."""
    await db.execute(CREATE)
    await attach(store, tenant="owner")
    await db.execute(
        "INSERT INTO docs (id, body, owner) VALUES (1, 'one', 'ada'), (2, 'two', 'bob'), (3, 'three', NULL)"
    )
    await catch_up(store)
    assert await found(store, "one", tenant="ada") == ["1"]

    await db.execute(
        "UPDATE docs SET owner = 'bob' WHERE id = 1; UPDATE docs SET owner = 'ada', body = 'new' WHERE id = 3"
    )

    assert await catch_up(store) == 1
    assert await found(store, "one", tenant="bob") == ["1", "2"]
    assert await found(store, "new", tenant="ada") == ["3"]
    assert (await one(store)).problem is None


async def test_rows_take_the_place_of_deleted_records(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A collection that once held other tenants' records, all deleted, can be attached, and its ids are free."""
    await db.execute(CREATE)
    await store.declare(declaration("docs"))
    await store.put("docs", [NewRecord(id=RecordId("1"), text="old", tenant="ada")])
    await store.delete("docs", [RecordId("1")])
    await db.execute("INSERT INTO docs (id, body) VALUES (1, 'mine')")

    await attach(store)

    assert await catch_up(store) == 1
    assert await records(store) == {"1": "mine"}


async def test_attributes_can_be_filtered_by(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Columns keep their JSON types, NULL is no attribute, and a change of one is followed without an embedding."""
    await db.execute(CREATE)
    await attach(store, attributes=("colour", "size"))
    await db.execute("INSERT INTO docs (id, body, colour, size) VALUES (1, 'one', 'red', 5), (2, 'two', NULL, 7)")
    await catch_up(store)
    assert await found(store, "one", filter=read_filter({"size": 5})) == ["1"]
    assert await found(store, "one", filter=read_filter({"colour": "red"})) == ["1"]

    await db.execute("UPDATE docs SET colour = 'blue'")

    assert await catch_up(store) == 0
    assert await found(store, "one", filter=read_filter({"colour": "blue"})) == ["1", "2"]


async def test_an_expression_chooses_the_lane(store: PostgresStore, db: asyncpg.Connection) -> None:
    """By name or number; what it says nothing of goes the normal way."""
    await db.execute(CREATE)
    await attach(store, priority="urgency -- as people write it")
    await gather(store)
    await db.execute("""INSERT INTO docs (id, body, urgency) VALUES (1, 'a', 'low'), (2, 'b', NULL), (3, 'c', 'High'),
        (4, 'd', 'URGENT'), (5, 'e', '3'), (6, 'f', 'nonsense'), (7, 'g', '0')""")
    await gather(store)

    leased = await take(store, limit=100)

    order = [int(str(lease.record_id)) for lease in leased]
    jobs = {number: await store.job(lease.job_id) for number, lease in zip(order, leased, strict=True)}
    assert {number: job.priority for number, job in jobs.items() if job} == {
        1: Priority.LOW, 2: Priority.NORMAL, 3: Priority.HIGH, 4: Priority.URGENT, 5: Priority.URGENT,
        6: Priority.NORMAL, 7: Priority.LOW,
    }  # fmt: skip


@pytest.mark.parametrize(
    "expression",
    [
        "CASE WHEN 10 / size > 5 THEN 'urgent' ELSE 'low' END",
        "CASE WHEN size = 0 THEN (SELECT 'x' FROM generate_series(1, 2)) WHEN size = 1 THEN 'urgent' ELSE 'low' END",
        "public.strict_lane(size)",
    ],
)
async def test_an_expression_that_fails_stops_nobody(
    store: PostgresStore, db: asyncpg.Connection, expression: str
) -> None:
    """The row it fails for goes the normal way, and the others keep their lanes."""
    await db.execute(CREATE)
    await db.execute("""CREATE FUNCTION public.strict_lane(n int) RETURNS text LANGUAGE plpgsql AS $$
        BEGIN IF n = 0 THEN RAISE 'not zero'; END IF; RETURN CASE n WHEN 1 THEN 'urgent' ELSE 'low' END; END $$""")
    await attach(store, priority=expression)
    await gather(store)
    await db.execute("INSERT INTO docs (id, body, size) VALUES (1, 'a', 1), (2, 'b', 0), (3, 'c', 5)")

    await gather(store)

    assert [str(lease.record_id) for lease in await take(store, limit=1)] == ["1"]
    assert [str(lease.record_id) for lease in await take(store, limit=1)] == ["2"]
    now = await one(store)
    assert (now.problem, now.refusals) == (None, 0)


async def test_an_expression_whose_function_is_gone_is_told(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Nothing can be read by it: people are told, nothing is lost, and it goes on when the function is back."""
    function = "CREATE FUNCTION public.lane(int) RETURNS text LANGUAGE sql AS $$ SELECT 'urgent' $$"
    await db.execute(CREATE)
    await db.execute(function)
    await attach(store, priority="lane(size)")
    await gather(store)
    await db.execute("DROP FUNCTION public.lane(int); INSERT INTO docs (id, body, size) VALUES (1, 'a', 1)")
    await catch_up(store)
    assert "lane(integer) does not exist" in str((await one(store)).problem)

    await db.execute(function)

    assert await catch_up(store) == 1
    assert (await one(store)).problem is None


@pytest.mark.parametrize(
    "expression",
    [
        "", "no_such_column", "size; DROP TABLE docs", "'low') FROM docs; DROP TABLE docs; --", "1)::text, (SELECT 2",
        "1)::text FROM docs), (SELECT (2", "1)::text FROM docs) END, CASE WHEN true THEN (SELECT (2", "$1", "/* open",
        "'open", "size FROM docs", "u.id", "p_ids", "ctid",
    ],
)  # fmt: skip
@pytest.mark.parametrize("postgres_version", [18])
async def test_what_is_no_expression_is_refused(store: PostgresStore, db: asyncpg.Connection, expression: str) -> None:
    """Whatever would not stay in its place, and whatever the table does not have."""
    await db.execute(CREATE)

    with pytest.raises(Invalid, match=r"priority|read like that"):
        await attach(store, priority=expression)

    assert await store.attached() == []
    assert [found.declaration.name for found in await store.collections()] == [NOTES]
    assert await db.fetchval("SELECT to_regclass('docs') IS NOT NULL")
    assert await db.fetchval("SELECT count(*) FROM pg_proc WHERE proname ~ '^(note|read|page|place)_[0-9]'") == 0


async def test_a_raised_lane_moves_what_waits(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A row that is edited into urgency overtakes the others."""
    await db.execute(CREATE)
    await db.execute("INSERT INTO docs (id, body) SELECT n, 'text ' || n FROM generate_series(1, 5) n")
    await attach(store, priority="urgency")
    await gather(store)

    await db.execute("UPDATE docs SET urgency = 'urgent', body = 'now' WHERE id = 4")
    await gather(store)

    assert (await lanes(store))[0] == "4"
