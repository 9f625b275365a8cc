"""What the ready roles may do: exactly what the page says."""

import asyncio

import asyncpg
import pytest
from tests.stores.postgres.roles import Roles
from tests.stores.postgres.tables import attach, catch_up, gather, in_step

import embedq
from embedq.errors import StoreUnusable
from embedq.model import EmbedderName, JobFilter, Patch, Query, RecordId
from embedq.stores.postgres import PostgresStore
from embedq.telemetry import Event, Facts, Telemetry
from embedq.testing.stores.stage import NOON, NOTES, declaration, embed_all, write, write_many

WORTH = 20
EIGHT = EmbedderName(provider="fake", model="fake", dimensions=8)


async def test_a_writer_writes_and_searches_and_a_worker_does_the_rest(roles: Roles) -> None:
    """Neither is the owner: put, embed, search, edit, delete and upkeep go well, in a space that is new to both."""
    async with (
        embedq.open(roles.writer, embedder="fake") as application,
        embedq.open(roles.worker, embedder="fake", workers=1) as worker,
    ):
        await application.put(NOTES, [{"id": "a", "text": "weaving"}, {"id": "b", "text": "baking"}])
        assert await application.wait(NOTES, ["a", "b"], timeout=30) == {"a": "embedded", "b": "embedded"}
        await application.put(NOTES, [{"id": "a", "text": "spinning"}])
        await application.delete(NOTES, ["b"])
        assert await application.wait(NOTES, ["a"], timeout=30) == {"a": "embedded"}
        found = await application.search(NOTES, "spinning", mode="semantic")
        assert [hit.id for hit in found.hits] == ["a"]
        assert (await worker.search(NOTES, "spinning")).hits[0].id == "a"


async def test_a_writer_does_all_that_writes(roles: Roles) -> None:
    """Declare, put, patch, enqueue, cancel, revive, delete and drop, on its own connections."""
    store = await PostgresStore.open(roles.writer)
    await store.declare(declaration(text_from=("title",)), now=NOON)
    await store.declare(declaration(), now=NOON)
    await write(store, "weaving", "a")
    await store.patch(NOTES, RecordId("a"), Patch(text="spinning"), now=NOON)
    [receipt] = await store.enqueue(NOTES, [RecordId("a")], force=True, now=NOON)
    assert receipt.job_id is not None
    await store.cancel(receipt.job_id, now=NOON)
    assert await store.revive(JobFilter(), job=receipt.job_id, now=NOON) == 1
    assert await store.delete(NOTES, [RecordId("a")], purge=True, now=NOON) == ["a"]
    await store.drop(NOTES, now=NOON)
    assert await store.collections() == []
    await store.close()


async def test_a_writer_puts_and_deletes_in_its_own_transaction(roles: Roles) -> None:
    """On a connection of the application's, with a search path of the application's."""
    store = await PostgresStore.open(roles.writer)
    await store.declare(declaration(), now=NOON)
    async with embedq.open(roles.writer, embedder="fake") as application:
        db = await asyncpg.connect(roles.writer)
        async with db.transaction():
            await application.put(NOTES, [{"id": "a", "text": "weaving"}, {"id": "b", "text": "b"}], connection=db)
            assert await application.delete(NOTES, ["b"], connection=db) == ["b"]
        await db.close()
    assert [record.id for record in (await store.records(NOTES)).items] == ["a"]
    await store.close()


async def test_a_reader_reads_all_there_is(roles: Roles) -> None:
    """Records, vectors, hits, jobs, counts, workers, budgets and attached tables."""
    worker, reader = await PostgresStore.open(roles.worker), await PostgresStore.open(roles.reader)
    await worker.declare(declaration(embedder=EIGHT), now=NOON)
    await write(worker, "weaving", "a")
    await embed_all(worker)

    [record] = await reader.get(NOTES, [RecordId("a")], with_vectors=True)
    assert record.vector is not None
    assert [hit.id for hit in await reader.search_vector(NOTES, record.vector, Query(k=1))] == ["a"]
    assert [hit.id for hit in await reader.search_words(NOTES, "weaving", Query(k=1))] == ["a"]
    assert (await reader.freshness(NOTES)).coverage == 1.0
    assert (await reader.counts())[NOTES].completed == 1
    assert len((await reader.jobs(JobFilter())).items) == 1
    assert len((await reader.records(NOTES)).items) == 1
    looks = (reader.oldest_pending(), reader.dead_stats(), reader.budgets(), reader.attached(), reader.missing(NOTES))
    await asyncio.gather(*looks, reader.check(), reader.paused())
    await worker.close()
    await reader.close()


async def test_all_upkeep_is_a_workers_to_do(roles: Roles) -> None:
    """Rescue, purge, reconcile, recount, revival, pause and what a drop has left."""
    store = await PostgresStore.open(roles.worker)
    await store.declare(declaration(embedder=EIGHT), now=NOON)
    await write_many(store, WORTH)
    await embed_all(store)

    await store.rescue(now=NOON)
    await store.purge(older_than=NOON - NOON, now=NOON)
    await store.reconcile(NOTES, [RecordId("r1")], now=NOON)
    await store.recount(NOTES)
    await store.replay_quota(older_than=NOON - NOON, now=NOON)
    await store.pause()
    await store.resume()
    await store.drop(NOTES, now=NOON)
    while await store.finish(now=NOON):
        continue
    assert await store.counts() == {}
    await store.close()


async def test_an_index_is_built_by_who_acts_as_the_owner(roles: Roles) -> None:
    """A worker that does not leaves it alone, and tells once who may."""
    told: list[Facts] = []

    def hear(event: Event, level: str, facts: Facts) -> None:
        del level
        told.extend([facts] if event is Event.INDEX else [])

    worker = await PostgresStore.open(roles.worker, index_from=WORTH, telemetry=Telemetry(hear))
    await worker.declare(declaration(embedder=EIGHT), now=NOON)
    await write_many(worker, WORTH)
    await embed_all(worker)
    assert [await worker.finish(now=NOON) for _ in range(2)] == [0, 0]
    assert [(facts["act"], "may build it" in facts["reason"]) for facts in told] == [("not_built", True)]

    owner = await PostgresStore.open(roles.acting_owner, index_from=WORTH)
    assert await owner.finish(now=NOON) == 1
    await owner.close()
    await worker.close()


async def test_what_anybody_makes_is_the_owners(roles: Roles) -> None:
    """Tables and functions of a new space, whoever has made it necessary, and those of an administrator's upgrade."""
    store = await PostgresStore.open(roles.writer)
    await store.declare(declaration(embedder=EIGHT), now=NOON)
    await store.close()
    db = await asyncpg.connect(roles.admin)
    await db.execute("UPDATE embedq.functions SET digest = 'of another source'")
    await (await PostgresStore.open(roles.admin)).close()

    owners = await db.fetch("""
        SELECT DISTINCT relowner::regrole::text FROM pg_class WHERE relnamespace = 'embedq'::regnamespace
        UNION SELECT DISTINCT proowner::regrole::text FROM pg_proc WHERE pronamespace = 'embedq'::regnamespace
    """)
    await db.close()
    assert [row["relowner"] for row in owners] == [roles.names["ada"]]


async def test_a_worker_follows_an_attached_table_and_a_reader_sees_it(roles: Roles) -> None:
    """Attached by the owner; rows written by an application that has no right on embedq at all."""
    owner, worker = await PostgresStore.open(roles.owner), await PostgresStore.open(roles.worker)
    ada, stranger = await asyncpg.connect(roles.owner), await asyncpg.connect(roles.stranger)
    await ada.execute("CREATE SCHEMA shop; CREATE TABLE shop.docs (id int PRIMARY KEY, body text, e vector(8))")
    await ada.execute("GRANT USAGE ON SCHEMA shop TO PUBLIC; GRANT ALL ON shop.docs TO PUBLIC")
    await attach(owner, table="shop.docs")
    await stranger.execute("INSERT INTO shop.docs VALUES (1, 'weaving'), (2, 'baking')")
    await stranger.execute("UPDATE shop.docs SET body = 'spinning' WHERE id = 1; DELETE FROM shop.docs WHERE id = 2")
    await catch_up(worker)
    await ada.execute("SET search_path = shop, public")
    assert await in_step(worker, ada) == 1

    reader = await PostgresStore.open(roles.reader)
    [found] = await reader.attached()
    assert (found.collection, found.problem) == ("docs", None)
    for store in (owner, worker, reader):
        await store.close()
    for db in (ada, stranger):
        await db.close()


async def test_a_worker_tells_of_a_table_that_only_the_owner_can_follow(roles: Roles) -> None:
    """It cannot write triggers; who acts as the owner can."""
    told: list[Facts] = []

    def hear(event: Event, level: str, facts: Facts) -> None:
        del level
        told.extend([facts] if event is Event.TABLE_TROUBLE else [])

    owner = await PostgresStore.open(roles.acting_owner)
    ada = await asyncpg.connect(roles.owner)
    await ada.execute("CREATE SCHEMA shop; CREATE TABLE shop.docs (id int PRIMARY KEY, body text, e vector(8))")
    await attach(owner, table="shop.docs")
    await ada.execute("ALTER TABLE shop.docs RENAME TO pages")
    worker = await PostgresStore.open(roles.worker, telemetry=Telemetry(hear))
    await worker.gather()
    assert any(f"only {roles.names['ada']} may follow it" in facts["error"] for facts in told)

    await gather(owner)
    [found] = await owner.attached()
    assert (found.attachment.table, found.problem) == ("shop.pages", None)
    await ada.close()
    await worker.close()
    await owner.close()


async def test_without_grants_each_refusal_names_what_is_missing(roles: Roles) -> None:
    """The database, then one of the ready roles, for one who has none and for one whose role is too little."""
    db = await asyncpg.connect(roles.admin)
    database = await db.fetchval("SELECT current_database()")
    store = await PostgresStore.open(roles.owner)
    await store.declare(declaration(), now=NOON)
    await store.close()

    async def refusal(url: str) -> str:
        with pytest.raises(StoreUnusable) as refused:
            await open_and_put(url)
        return str(refused.value)

    await db.execute(f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC")
    assert f"GRANT CONNECT ON DATABASE {database}" in await refusal(roles.stranger)
    await db.execute(f"GRANT CONNECT ON DATABASE {database} TO PUBLIC")
    assert "embedq_writer" in await refusal(roles.stranger)
    assert "embedq_writer" in await refusal(roles.reader)
    await db.close()


async def open_and_put(url: str) -> None:
    """Write one record as whoever this is."""
    store = await PostgresStore.open(url)
    try:
        await write(store, "A")
    finally:
        await store.close()


async def test_a_role_that_may_not_make_a_schema_is_told(postgres_url: str) -> None:
    """The first `init` needs one grant, and the message names it."""
    db = await asyncpg.connect(postgres_url)
    database = await db.fetchval("SELECT current_database()")
    role = f"plain_{database[-8:]}"
    await db.execute(f"CREATE ROLE {role} LOGIN")

    with pytest.raises(StoreUnusable, match=f"GRANT CREATE ON DATABASE {database}"):
        await PostgresStore.open(postgres_url.replace("postgres@", f"{role}@"))

    await db.execute(f"DROP ROLE {role}")
    await db.close()
