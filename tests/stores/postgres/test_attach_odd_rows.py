"""Rows and settings that are out of the ordinary: one of them harms no other, and nothing is lost in silence."""

import asyncio

import asyncpg
import pytest
from tests.stores.postgres.tables import CREATE, attach, attach_docs, catch_up, gather, in_step, mend, one, records

from embedq.errors import Invalid
from embedq.model import RecordId
from embedq.operator import Operator, OperatorOptions
from embedq.stores.postgres import PostgresStore, connection
from embedq.telemetry import Telemetry

RANK = """
CREATE FUNCTION rank_of(int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  IF $1 = 13 THEN
    RAISE EXCEPTION 'no such rank' USING ERRCODE = 'check_violation';
  END IF;
  RETURN 'high';
END $$
"""


async def test_a_rank_that_raises_whatever_it_likes(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Its row is embedded all the same, and so are the others."""
    await db.execute(f"{CREATE}; {RANK}")
    await attach(store, priority="rank_of(other)")
    await db.execute("INSERT INTO docs SELECT n, 'text ' || n, n FROM generate_series(1, 20) n")
    await catch_up(store)

    assert await in_step(store, db) == 20
    assert (await one(store)).problem is None


async def test_a_key_that_its_own_type_refuses(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A domain may have got a rule that old rows break."""
    await db.execute("CREATE DOMAIN code AS text; CREATE TABLE docs (id code PRIMARY KEY, body text)")
    await db.execute("INSERT INTO docs VALUES ('a', 'A'), ('bad', 'B'), ('c', 'C')")
    await db.execute("ALTER DOMAIN code ADD CHECK (length(VALUE) = 1) NOT VALID")
    await attach(store, into=None)
    await catch_up(store)

    assert await records(store) == {"a": "A", "c": "C"}
    assert list((await one(store)).refused) == ["bad"]


async def test_a_slow_rank_is_asked_for_fewer_rows(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes longer than a statement may is done in smaller portions; one row that hangs gets no lane."""
    await db.execute(CREATE)
    await db.execute("""
        CREATE FUNCTION dawdle(int) RETURNS text LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_sleep(CASE WHEN $1 = 13 THEN 60 ELSE 0.02 END); RETURN 'high'; END $$""")
    await attach(store, priority="dawdle(id)")
    await db.execute("CREATE TABLE others (id int PRIMARY KEY, body text)")
    await attach(store, "others", name="others", into=None)
    await gather(store)
    for first in range(1, 101, 10):
        await db.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series($1::int, $1 + 9) n", first)
    await db.execute("INSERT INTO others VALUES (1, 'one')")
    monkeypatch.setattr(connection, "STATEMENT_SECONDS", 1.0)
    hasty = await PostgresStore.open(postgres_url)
    try:
        await hasty.gather()
        await hasty.gather()
        assert await records(hasty, "others") == {"1": "one"}  # it has its turn, whatever the other does
        async with asyncio.timeout(120):
            while (await one(store)).noted:
                await hasty.gather()
    finally:
        await hasty.close()

    assert await catch_up(store) == 101
    assert await in_step(store, db) == 100
    assert (await one(store)).problem is None


async def test_a_rank_that_cannot_be_computed_any_more(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Texts are embedded all the same."""
    await db.execute(CREATE)
    await db.execute("""
        CREATE TABLE ranks (n int);
        CREATE FUNCTION rank_of(int) RETURNS text LANGUAGE plpgsql AS
          $$ BEGIN RETURN (SELECT 'high' FROM public.ranks LIMIT 1); END $$""")
    await attach(store, priority="rank_of(other)")
    await db.execute("DROP TABLE ranks; INSERT INTO docs VALUES (1, 'one'), (2, 'two')")
    await catch_up(store)

    assert await in_step(store, db) == 2


async def test_composites_with_a_hole_are_texts(store: PostgresStore, db: asyncpg.Connection) -> None:
    """SQL says of such a value neither that it is NULL nor that it is not."""
    await db.execute("CREATE TYPE place AS (street text, town text)")
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, body place, spot place)")
    await db.execute("INSERT INTO docs VALUES (1, ROW('Main', NULL), ROW('Main', NULL)), (2, NULL, NULL)")
    await attach(store, into=None, attributes=("spot",))
    await catch_up(store)
    assert await records(store) == {"1": "(Main,)"}
    await db.execute("UPDATE docs SET body = ROW('Other', NULL), spot = ROW('Other', NULL) WHERE id = 1")
    await catch_up(store)

    [record] = (await store.records("docs")).items
    assert (record.text, record.attributes) == ("(Other,)", {"spot": {"street": "Other", "town": None}})


async def test_a_database_that_reads_backslashes(postgres_url: str) -> None:
    """A setting of old times changes neither what is a text nor what is found."""
    admin = await asyncpg.connect(postgres_url)
    database = await admin.fetchval("SELECT current_database()")
    await admin.execute(f'ALTER DATABASE "{database}" SET standard_conforming_strings = off')
    await admin.close()
    db = await asyncpg.connect(postgres_url)
    store = await PostgresStore.open(f"{postgres_url}?pooler=transaction")  # a pooler's sessions are as they are
    try:
        await attach_docs(store, db, 3)
        await db.execute(r"INSERT INTO docs VALUES (4, E'four \\ back')")
        await catch_up(store)
        assert await in_step(store, db) == 4
    finally:
        await store.close()
        await db.close()


async def test_tenants_that_nobody_could_ask_for(store: PostgresStore, db: asyncpg.Connection) -> None:
    """They are refused with a reason, as a put refuses them."""
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, body text, whose text)")
    await db.execute(r"INSERT INTO docs VALUES (1, 'A', 'ada'), (2, 'B', ''), (3, 'C', E'\n'), (4, 'D', NULL)")
    await attach(store, into=None, tenant="whose")
    await catch_up(store)

    assert await records(store) == {"1": "A", "4": "D"}
    assert {key: reason[:10] for key, reason in (await one(store)).refused.items()} == dict.fromkeys("23", "its tenant")


async def test_a_number_that_no_reader_could_read(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Its row is refused with a reason; every list that it is in would end there."""
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, body text, n numeric)")
    await db.execute("INSERT INTO docs VALUES (1, 'A', 1e307), (2, 'B', 1e5000)")
    await attach(store, into=None, attributes=("n",))
    await catch_up(store)

    assert await records(store) == {"1": "A"}
    assert (await one(store)).refused == {"2": "its attributes hold a number beyond 1e308"}


async def test_json_is_kept_as_it_is(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A column that is NULL is no attribute; a null within a value is part of it."""
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, body text, facts jsonb, n int)")
    await db.execute("""INSERT INTO docs VALUES (1, 'A', '{"x": null, "y": {"z": null}}', NULL)""")
    await attach(store, into=None, attributes=("facts", "n"))
    await catch_up(store)

    [record] = (await store.records("docs")).items
    assert record.attributes == {"facts": {"x": None, "y": {"z": None}}}


async def test_a_vector_is_no_text(store: PostgresStore, db: asyncpg.Connection) -> None:
    """It is what comes out."""
    await db.execute(CREATE)

    with pytest.raises(Invalid, match="is no text"):
        await attach(store, text=("e",), into=None)


@pytest.mark.parametrize("postgres_version", [18])
async def test_a_change_beside_long_texts_does_not_read_them(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A counter in a row of 200 kB is changed as fast as one in a row of 200 bytes; the text's own change is seen."""
    await db.execute(CREATE)
    await db.execute("ALTER TABLE docs ALTER body SET STORAGE external")
    await db.execute("INSERT INTO docs SELECT n, repeat(n || ' words ', 25000), 0 FROM generate_series(1, 20) n")
    await attach(store, into=None)
    await catch_up(store)
    toast = await db.fetchval("SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = 'docs'::regclass")

    async def chunks() -> int:
        await db.execute("SELECT pg_stat_force_next_flush()")
        await db.execute("SELECT pg_stat_clear_snapshot()")
        name = toast.partition(".")[2]
        return int(await db.fetchval("SELECT coalesce(idx_scan, 0) FROM pg_stat_all_tables WHERE relname = $1", name))

    async def read_by_an_update() -> int:
        before = await chunks()
        await db.execute("UPDATE docs SET other = other + 1")
        return await chunks() - before

    assert min([await read_by_an_update() for _ in range(3)]) == 0  # others may tell late what they have read
    assert (await one(store)).noted == 0

    await db.execute("UPDATE docs SET body = body || '!' WHERE id = 7")
    assert (await one(store)).noted == 1
    await catch_up(store)
    assert (await records(store))["7"].endswith("!")


async def test_what_is_noted_is_pending(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Nobody is told that all is done while changes wait to be looked at."""
    await attach_docs(store, db, 1)
    operator = Operator(store, options=OperatorOptions(), telemetry=Telemetry())
    assert (await operator.drain(timeout=0)).status == "drained"
    await db.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(2, 6) n")

    assert (await store.freshness("docs")).pending == 5
    assert (await store.counts())["docs"].pending == 5
    assert (await operator.drain(timeout=0)).status == "timeout"
    assert any("no worker is alive" in note for note in (await operator.status()).notes)
    await catch_up(store)
    assert (await operator.drain(timeout=0)).status == "drained"


async def test_what_is_not_copied_yet_is_pending(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A row that somebody holds gets its vector later, and until then not all is done."""
    await attach_docs(store, db, 1)
    holder = db.transaction()
    await holder.start()
    await db.execute("UPDATE docs SET other = 1")
    await store.enqueue("docs", [RecordId("1")], force=True)
    await catch_up(store)
    assert (await store.counts())["docs"].pending == 1

    await holder.rollback()
    await catch_up(store)
    assert (await store.counts())["docs"].pending == 0


async def test_a_table_that_is_gone_holds_up_no_drain(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Nothing can be done for it: that is trouble, and not work."""
    await attach_docs(store, db, 1)
    await db.execute("INSERT INTO docs VALUES (2, 'two')")
    await db.execute("DROP TABLE docs")
    operator = Operator(store, options=OperatorOptions(), telemetry=Telemetry())

    assert (await operator.drain(timeout=0)).status == "drained"
    assert any("is gone" in note for note in (await operator.status()).notes)


async def test_a_table_in_trouble_is_told_everywhere(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Status, health and doctor look at tables too."""
    await attach_docs(store, db, 1)
    operator = Operator(store, options=OperatorOptions(), telemetry=Telemetry())
    assert [found.verdict for found in await operator.doctor() if found.check == "tables"] == ["ok"]
    await db.execute("ALTER TABLE docs RENAME body TO words")
    await mend(store)

    assert [found.verdict for found in await operator.doctor() if found.check == "tables"] == ["problem"]
    status = await operator.status()
    assert status.health.value == "DEGRADED"
    assert any("has no column 'body'" in note for note in status.notes)
