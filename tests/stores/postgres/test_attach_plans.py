"""What following a table reads: a few rows of what has changed, however long the table is, under every kind of plan."""

# ruff: noqa: S608 (names of tables are put into statements here on purpose)

import time
from collections.abc import AsyncIterator, Awaitable
from datetime import timedelta

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.tables import attach, gather, left
from tests.stores.postgres.test_plans import FILL, MANY, _flush

from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS, NOON, declaration, done, take

ROWS = 100_000
MOST_READ = 3_000  # rows of the table that steps about up to 600 rows may read
KEYS = {
    "int": (["id"], "id int PRIMARY KEY", "", "n, NULL"),
    "text": (["id"], "id text PRIMARY KEY", "", "'key ' || n, NULL"),
    "another collation": (["id"], 'id text COLLATE "C" PRIMARY KEY', "", "'key ' || n, NULL"),
    "several columns": (["day", "id"], "id int, PRIMARY KEY (day, id)", "", "n, date '2024-01-01' + n % 100"),
    "partitions": (["id"], "id int PRIMARY KEY", "PARTITION BY RANGE (id)", "n, NULL"),
}  # fmt: skip
PARTITIONS = "".join(
    f"CREATE TABLE docs_{n} PARTITION OF docs FOR VALUES FROM ({n * 20_000}) TO ({(n + 1) * 20_000});" for n in range(6)
)
READ = """
SELECT pg_stat_clear_snapshot(), relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) + coalesce((
    SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid), 0) AS read
FROM pg_stat_user_tables t
"""


@pytest.fixture(params=["auto", "force_generic_plan", "force_custom_plan"])
def plans(request: pytest.FixtureRequest) -> str:
    """Say how the server plans."""
    return str(request.param)


@pytest_asyncio.fixture
async def planned(postgres_url: str, plans: str) -> AsyncIterator[PostgresStore]:
    """Open a store on a server that plans like that."""
    db = await asyncpg.connect(postgres_url)
    database = await db.fetchval("SELECT current_database()")
    await db.execute(f'ALTER DATABASE "{database}" SET plan_cache_mode = {plans}')
    await db.close()
    store = await PostgresStore.open(postgres_url)
    yield store
    await store.close()


async def read_by(store: PostgresStore, db: asyncpg.Connection, act: Awaitable[object]) -> dict[str, int]:
    """Count the rows of each table that an act reads."""
    await db.execute("SELECT pg_stat_force_next_flush()")  # what this very session has read is none of it
    await _flush(store)
    before = {row["relname"]: row["read"] for row in await db.fetch(READ)}
    await act
    await _flush(store)
    after = {row["relname"]: row["read"] for row in await db.fetch(READ)}
    return {name: int(count - before.get(name, 0)) for name, count in after.items() if count > before.get(name, 0)}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("postgres_version", [18])
async def test_a_change_of_few_rows_reads_few_rows(planned: PostgresStore, postgres_url: str, key: str) -> None:
    """Notes, walk, prune and copying find their rows by the key's index."""
    names, columns, partitioned, values = KEYS[key]
    db = await asyncpg.connect(postgres_url)
    await db.execute(f"CREATE TABLE docs (body text, e vector({DIMENSIONS}), day date, {columns}) {partitioned}")
    await db.execute(PARTITIONS if partitioned else "SELECT 1")
    await db.execute(
        f"INSERT INTO docs (id, day, body) SELECT {values}, 'text ' || n FROM generate_series(1, {ROWS}) n"
    )
    await db.execute("VACUUM ANALYZE docs")
    await attach(planned, key=names)
    for _ in range(6):  # so that plans are chosen
        await planned.gather(limit=100)
    await db.execute("UPDATE embedq.attachment SET walked_to = NULL")

    async def follow() -> None:
        while await planned.gather(limit=100):
            pass

    async def settle() -> None:
        for _ in range(6):
            leases = await take(planned, limit=10)
            await planned.settle([done(lease) for lease in leases], now=NOON)

    await db.execute("UPDATE docs SET body = 'edited' WHERE body = 'text 77777'")
    read = {"a change": await read_by(planned, db, follow()), "settling": await read_by(planned, db, settle())}
    await db.execute("UPDATE embedq.attachment SET pruned_to = ''")
    read["a prune"] = await read_by(planned, db, follow())
    last = await planned._database.fetchrow("SELECT embedq.page_1('', 1) AS first")
    await db.execute("UPDATE embedq.attachment SET walked_to = $1", last["first"])
    read["a page"] = await read_by(planned, db, planned.gather(limit=10))

    of_docs = {act: sum(n for table, n in tables.items() if table.startswith("docs")) for act, tables in read.items()}
    assert {act: rows for act, rows in of_docs.items() if rows > MOST_READ} == {}
    assert min(of_docs.values()) > 0
    assert await db.fetchval("SELECT count(*) FROM docs WHERE e IS NOT NULL") == 60
    await db.close()


async def test_a_table_that_grows_keeps_good_plans(planned: PostgresStore, postgres_url: str) -> None:
    """Plans that were made while everything was empty do not read more and more as table and records grow."""
    db = await asyncpg.connect(postgres_url)
    await db.execute(f"CREATE TABLE docs (id int PRIMARY KEY, body text, e vector({DIMENSIONS}))")
    await attach(planned)
    read, settling = list[dict[str, int]](), list[dict[str, int]]()
    for start in range(0, 20_000, 2_000):
        span = f"generate_series({start}, {start + 1_999}) n"
        await db.execute(f"INSERT INTO docs SELECT n, 'text ' || n FROM {span}")
        await db.execute(f"UPDATE docs SET body = body || '!' WHERE id BETWEEN {start} AND {start + 9}")
        read.append(await read_by(planned, db, gather(planned)))
        leases = await take(planned, limit=10)
        settling.append(await read_by(planned, db, planned.settle(list(map(done, leases)), now=NOON)))

    assert read[-1]["docs"] < 10_000
    assert read[-1]["missing"] < MOST_READ
    assert settling[-1]["docs"] < MOST_READ
    assert settling[-1]["record"] < MOST_READ
    await db.close()


async def test_nothing_noted_reads_nothing(planned: PostgresStore, postgres_url: str) -> None:
    """Beside very many finished, waiting and pending jobs a look at a quiet table costs nothing."""
    collection = await planned.declare(declaration(), now=NOON)
    await planned.learn(collection.space.id, DIMENSIONS)
    db = await asyncpg.connect(postgres_url)
    await db.execute(FILL)
    await db.execute(
        f"SET search_path = public; CREATE TABLE docs (id int PRIMARY KEY, body text, e vector({DIMENSIONS}))"
    )
    await db.execute("INSERT INTO docs VALUES (1, 'one')")
    await attach(planned)
    await gather(planned)
    await db.execute("ANALYZE")

    read = await read_by(planned, db, planned.gather())

    assert sum(read.values()) < 100
    assert await left(db) == {"noted": 0, "unplaced": 0}
    assert await db.fetchval("SELECT count(*) FROM embedq.job") > 2 * MANY
    await db.close()


async def test_notes_of_a_broken_table_cost_the_others_nothing(planned: PostgresStore, postgres_url: str) -> None:
    """A hundred thousand notes that nobody can take over are not read by a look at another table."""
    db = await asyncpg.connect(postgres_url)
    for name in ("broken", "docs"):
        await db.execute(f"CREATE TABLE {name} (id int PRIMARY KEY, body text)")
        await attach(planned, name, into=None, name=name)
    await gather(planned)
    await db.execute(
        "INSERT INTO embedq.noted (attachment, keys) SELECT 1, ARRAY[n::text] FROM generate_series(1, 100000) n"
    )
    await db.execute(
        "ALTER TABLE broken RENAME body TO words; ANALYZE embedq.noted; INSERT INTO docs VALUES (1, 'one')"
    )

    read = await read_by(planned, db, planned.gather(limit=10))

    assert read["noted"] < MOST_READ
    assert (await planned.counts())["docs"].records == 1
    await db.close()


@pytest.mark.parametrize("plans", ["auto"])
@pytest.mark.parametrize("postgres_version", [18])
async def test_without_attachments_waiting_costs_nothing(planned: PostgresStore, postgres_url: str) -> None:
    """A look for tables, where there are none, is a matter of a millisecond and reads no row."""
    db = await asyncpg.connect(postgres_url)
    await planned.gather()

    async def look() -> float:
        before = time.monotonic()
        for _ in range(50):
            await planned.gather()
        return (time.monotonic() - before) / 50

    took: list[float] = []

    async def measure() -> None:
        took.append(await look())

    read = await read_by(planned, db, measure())
    await planned.wait_for_work(timedelta(seconds=0.01))

    assert sum(read.values()) == 0
    assert took[0] < 0.05
    await db.close()
