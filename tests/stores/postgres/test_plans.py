"""What a hot call reads: a few rows of what it is about, however many others there are, under every kind of plan."""

from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest
import pytest_asyncio

from embedq.model import JobFilter, JobStatus, NewRecord, Query, RecordId, SpaceId, WorkerId
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import (
    DIMENSIONS,
    LEASE,
    NOON,
    NOTES,
    declaration,
    done,
    failed,
    retry,
    take,
    vector_of,
    write,
    write_many,
)

SPACE = SpaceId("fake:fake@0/1")
MANY = 15_000  # of each: finished, in line, waiting
MOST_READ = 1_500  # rows that a call about ten records may read

# Finished, pending and waiting jobs of records that are there, by set statements.
FILL = f"""
SET search_path = embedq, public;
INSERT INTO record (collection, id, hash, text, attributes, created_at, updated_at, words)
  SELECT c.id, 'fill' || n, sha256(('text ' || n)::bytea), 'text ' || n, '{{}}', now(), now(),
    indexed_words('english', c.id, 'text ' || n)
  FROM collection c, generate_series(1, 3 * {MANY}) n;
INSERT INTO job (id, serial, collection, priority, queued_at, created_at, hash, status, completed_at)
  SELECT x.rid << 12 | c.space, x.rid, c.id, 1, now(), now(), x.hash,
    CASE WHEN x.rid % 3 = 0 THEN 2 ELSE 0 END, CASE WHEN x.rid % 3 = 0 THEN now() END
  FROM record x JOIN collection c ON c.id = x.collection;
INSERT INTO ready SELECT (id & 4095)::int, collection, place(priority, crashes, queued_at), id, arms, kind_of(job)
  FROM job WHERE status = 0 AND (id >> 12) % 3 = 1;
INSERT INTO later SELECT now() + interval '10 years', now(), (id & 4095)::int, collection,
    place(priority, crashes, queued_at), id FROM job WHERE status = 0 AND (id >> 12) % 3 = 2;
INSERT INTO vector_1 SELECT id >> 12, collection, false, hash, array_fill(0.5, ARRAY[{DIMENSIONS}])::vector
  FROM job WHERE status = 2;
INSERT INTO missing SELECT collection, id >> 12 FROM job WHERE status = 0;
INSERT INTO tally (collection, open, completed, records, missing)
  SELECT c.id, 2 * {MANY}, {MANY}, 3 * {MANY}, 2 * {MANY} FROM collection c;
"""  # noqa: S608 put together from constants
QUEUED = 100_000

# So many finished, pending and waiting jobs each behind those that are there. Their records are not
# needed: nothing that is hot may come to them.
FILL_QUEUE = f"""
SET search_path = embedq, public;
INSERT INTO job (id, serial, collection, priority, queued_at, created_at, hash, status, completed_at)
  SELECT (n - 4 * {QUEUED})::bigint << 12 | c.space, n, c.id, 1, now() + interval '1 hour', now(), '\\x00',
    CASE WHEN n % 3 = 0 THEN 2 ELSE 0 END, CASE WHEN n % 3 = 0 THEN now() END
  FROM collection c, generate_series(1, 3 * {QUEUED}) n;
INSERT INTO ready SELECT (id & 4095)::int, collection, place(priority, crashes, queued_at), id, arms, kind_of(job)
  FROM job WHERE status = 0 AND serial % 3 = 1 AND id < 0;
INSERT INTO later SELECT now() + interval '10 years', now(), (id & 4095)::int, collection,
    place(priority, crashes, queued_at), id FROM job WHERE status = 0 AND serial % 3 = 2 AND id < 0;
INSERT INTO tally (collection, open, completed) SELECT c.id, 2 * {QUEUED}, {QUEUED} FROM collection c;
"""  # noqa: S608 put together from constants
READ = """
SELECT pg_stat_clear_snapshot(), relname,
  coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) + coalesce((
    SELECT sum(i.idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid), 0) AS read
FROM pg_stat_user_tables t WHERE schemaname = 'embedq'
"""

Act = Callable[[PostgresStore], Awaitable[object]]


@pytest.fixture(params=["auto", "force_generic_plan", "force_custom_plan"])
def plans(request: pytest.FixtureRequest) -> str:
    """Say how the server plans."""
    return str(request.param)


@pytest_asyncio.fixture
async def unanalysed(postgres_url: str, plans: str) -> AsyncIterator[PostgresStore]:
    """Open a store with many rows of every kind, and no statistics but those that embedq was installed with."""
    db = await asyncpg.connect(postgres_url)
    database = await db.fetchval("SELECT current_database()")
    await db.execute(f'ALTER DATABASE "{database}" SET plan_cache_mode = {plans}')
    store = await PostgresStore.open(postgres_url)
    collection = await store.declare(declaration(), now=NOON)
    await store.learn(collection.space.id, DIMENSIONS)
    for table in ("record", "missing", "given_up", "job", "ready", "later", "vector_1"):
        await db.execute(f"ALTER TABLE embedq.{table} SET (autovacuum_enabled = off)")
    await db.execute(FILL)
    await _tell(db)
    yield store
    await store.close()
    await db.close()


@pytest_asyncio.fixture
async def full(unanalysed: PostgresStore, postgres_url: str) -> PostgresStore:
    """Open a store with many rows of every kind; statistics are as old as they come."""
    db = await asyncpg.connect(postgres_url)
    await db.execute("ANALYZE")
    await _tell(db)
    await db.close()
    return unanalysed


async def read_by(store: PostgresStore, url: str, act: Act) -> dict[str, int]:
    """Count the rows of each table that an act reads."""
    db = await asyncpg.connect(url)
    await _flush(store)
    before = {row["relname"]: row["read"] for row in await db.fetch(READ)}
    await act(store)
    await _flush(store)
    after = {row["relname"]: row["read"] for row in await db.fetch(READ)}
    await db.close()
    return {name: int(count - before.get(name, 0)) for name, count in after.items() if count > before.get(name, 0)}


async def _flush(store: PostgresStore) -> None:
    """Let every session of the store tell what it has read."""
    for connection, _ in list(store._database._pool.here()._idle):
        await _tell(connection)


async def _tell(connection: asyncpg.Connection) -> None:
    """Let a session tell what it has read, now and not within the next act."""
    await connection.execute("SELECT pg_stat_force_next_flush()")
    await connection.execute("SELECT 1")


async def _turn(store: PostgresStore) -> None:
    leases = await take(store, at=None, limit=10)
    await store.settle([done(lease) for lease in leases])
    leases = await take(store, at=None, limit=10)
    await store.settle([failed(leases[0]), retry(leases[1]), *(done(lease) for lease in leases[2:])])


async def _rescue(store: PostgresStore) -> None:
    leases = await take(store, "dead", at=None, limit=10)
    await store.renew(leases, span=LEASE)
    await store.rescue(dead=[WorkerId("dead")])


async def _settle_late(store: PostgresStore) -> None:
    leases = await take(store, "dead", at=None, limit=10)
    await store.rescue(dead=[WorkerId("dead")])
    await store.settle([done(lease) for lease in leases])


async def _edit(store: PostgresStore) -> None:
    names = [RecordId(f"fill{number}") for number in range(1, 11)]
    await store.put(NOTES, [NewRecord(id=name, text=f"edited {name}") for name in names])
    await store.put(NOTES, [NewRecord(id=name, text=f"edited {name}") for name in names])
    await store.enqueue(NOTES, names, force=True)
    await store.delete(NOTES, names[:5])


async def _operate(store: PostgresStore) -> None:
    [receipt] = await store.put(NOTES, [NewRecord(id=RecordId("fill100"), text="other")])
    assert receipt.job_id
    await store.job(receipt.job_id)
    await store.cancel(receipt.job_id)
    await store.revive(JobFilter(), job=receipt.job_id)


HOT: dict[str, Act] = {
    "put new records": lambda store: write_many(store, 10),
    "edit, repeat, force and delete": _edit,
    "lease, settle well and badly": _turn,
    "renew and rescue": _rescue,
    "rescue, and settle after all": _settle_late,
    "find, cancel and revive a job": _operate,
    "get": lambda store: store.get(NOTES, [RecordId(f"fill{n}") for n in range(10)], with_vectors=True),
    "list": lambda store: store.records(NOTES, limit=10),
    "list what is pending": lambda store: store.records(NOTES, status="pending", limit=10),
    "list what failed": lambda store: store.records(NOTES, status="failed", limit=10),
    "missing": lambda store: store.missing(NOTES, limit=10),
    "reconcile": lambda store: store.reconcile(NOTES, [RecordId(f"fill{n}") for n in range(10)]),
    "known": lambda store: store.known(SPACE, [b"x" * 32] * 10),  # type: ignore[list-item]  # a made-up hash
    "counts": lambda store: store.counts(),
    "dead letters": lambda store: store.jobs(JobFilter(status=JobStatus.FAILED), limit=10),
    "retrying": lambda store: store.jobs(JobFilter(status=JobStatus.RETRYING), limit=10),
    "pending": lambda store: store.jobs(JobFilter(status=JobStatus.PENDING), limit=10),
    "pending of a collection, in line": lambda store: store.jobs(
        JobFilter(status=JobStatus.PENDING, collection=NOTES), limit=10, cursor="1.1.0.0"
    ),
    "freshness": lambda store: store.freshness(NOTES),
    "oldest": lambda store: store.oldest_pending(),
    "all jobs": lambda store: store.jobs(JobFilter(), limit=10),
    "words": lambda store: store.search_words(NOTES, "12345", Query(k=10)),
}


@pytest.mark.parametrize("postgres_version", [18, 16])
async def test_a_hot_call_reads_few_rows(full: PostgresStore, postgres_url: str) -> None:
    """Finished, waiting and foreign rows cost it nothing, whatever the planner thinks."""
    read = {name: await read_by(full, postgres_url, act) for name, act in HOT.items()}

    too_much = {name: tables for name, tables in read.items() if max(tables.values(), default=0) > MOST_READ}
    assert too_much == {}


@pytest.mark.parametrize("postgres_version", [18, 16])
async def test_a_hot_call_reads_few_rows_before_anybody_has_analysed(
    unanalysed: PostgresStore, postgres_url: str
) -> None:
    """The first minute after an import is planned as well as the rest; only a search by words looks at all texts."""
    hot = {name: act for name, act in HOT.items() if name != "words"}
    read = {name: await read_by(unanalysed, postgres_url, act) for name, act in hot.items()}

    too_much = {name: tables for name, tables in read.items() if max(tables.values(), default=0) > MOST_READ}
    assert too_much == {}


@pytest.mark.parametrize("postgres_version", [18])
async def test_a_hundred_thousand_of_each_cost_nothing(postgres_url: str) -> None:
    """A hundred thousand jobs in line, as many that wait and as many finished, under every kind of plan."""
    store = await PostgresStore.open(postgres_url)
    collection = await store.declare(declaration(), now=NOON)
    await store.learn(collection.space.id, DIMENSIONS)
    for number in range(1, 1001, 100):
        await store.put(NOTES, [NewRecord(id=RecordId(f"fill{n}"), text=f"t {n}") for n in range(number, number + 100)])
    await store.close()
    db = await asyncpg.connect(postgres_url)
    await db.execute(FILL_QUEUE)
    await db.execute("ANALYZE")
    await _tell(db)
    database = await db.fetchval("SELECT current_database()")

    too_much = {}
    for plans in ("auto", "force_generic_plan", "force_custom_plan"):
        await db.execute(f'ALTER DATABASE "{database}" SET plan_cache_mode = {plans}')
        store = await PostgresStore.open(postgres_url)
        for name, act in HOT.items():
            tables = await read_by(store, postgres_url, act)
            if max(tables.values(), default=0) > MOST_READ:
                too_much[plans, name] = tables
        await store.close()
    await db.close()

    assert too_much == {}


async def test_the_figures_can_tell(full: PostgresStore, postgres_url: str) -> None:
    """A call that must look at everything is seen to do so."""
    await write(full, "A")

    read = await read_by(full, postgres_url, lambda store: store.search_vector(NOTES, vector_of("A"), Query(k=3)))

    assert read["vector_1"] >= MANY
