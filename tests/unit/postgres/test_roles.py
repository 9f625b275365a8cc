"""Which grants a role needs that did not install embedq: exactly those that the page says."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio

import embedq
from embedq.errors import StoreUnusable
from embedq.model import EmbedderName, RecordId
from embedq.stores.postgres import PostgresStore
from embedq.telemetry import Event, Facts, Telemetry
from embedq.testing.stores.stage import NOON, NOTES, declaration, embed_all, write, write_many

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "on-postgresql.md"
STATEMENTS = re.compile(r"## Roles and grants.*?```postgresql\n(.*?)```", re.DOTALL)
WORTH = 20


@dataclass(frozen=True)
class Roles:
    """URLs of one database, by who connects."""

    admin: str
    owner: str  # the page's `ada`
    worker: str
    application: str


@pytest_asyncio.fixture
async def roles(postgres_url: str) -> AsyncIterator[Roles]:
    """Make the page's roles, install as the owner, and grant what the page grants."""
    db = await asyncpg.connect(postgres_url)
    database = await db.fetchval("SELECT current_database()")
    names = {name: f"{name}_{database[-8:]}" for name in ("ada", "ada_worker", "shop_app")}
    await db.execute(f"CREATE EXTENSION vector; CREATE ROLE {names['ada']} LOGIN")
    await db.execute(f"GRANT CREATE ON DATABASE {database} TO {names['ada']}")
    urls = {name: postgres_url.replace("postgres@", f"{role}@") for name, role in names.items()}
    await (await PostgresStore.open(urls["ada"])).close()
    for name in ("ada_worker", "shop_app"):
        await db.execute(f"CREATE ROLE {names[name]} LOGIN")
    await db.execute(re.sub(r"\b(ada_worker|ada|shop_app)\b", lambda found: names[found[0]], granted()))
    yield Roles(postgres_url, urls["ada"], urls["ada_worker"], urls["shop_app"])
    for role in reversed(names.values()):
        await db.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")
    await db.close()


def granted() -> str:
    """Read the page's statements."""
    found = STATEMENTS.search(PAGE.read_text())
    assert found is not None
    return found[1]


async def test_an_application_writes_and_searches_and_a_worker_does_the_rest(roles: Roles) -> None:
    """Neither is the owner: put, embed, search, edit, delete and upkeep go well, in a space that is new to both."""
    async with (
        embedq.open(roles.application, embedder="fake") as application,
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


async def test_all_upkeep_is_the_workers_to_do(roles: Roles) -> None:
    """Rescue, purge, reconcile, recount, revival and the index need no more than the worker has."""
    store = await PostgresStore.open(roles.worker, index_from=WORTH)
    await store.declare(declaration(embedder=EmbedderName(provider="fake", model="fake", dimensions=8)), now=NOON)
    await write_many(store, WORTH)
    await embed_all(store)

    assert await store.finish(now=NOON) == 1
    await store.rescue(now=NOON)
    await store.purge(older_than=NOON - NOON, now=NOON)
    await store.reconcile(NOTES, [RecordId("r1")], now=NOON)
    await store.recount(NOTES)
    await store.replay_quota(older_than=NOON - NOON, now=NOON)
    await store.drop(NOTES, now=NOON)
    while await store.finish(now=NOON):
        continue
    assert await store.counts() == {}
    await store.close()


async def test_what_a_worker_makes_is_the_owners(roles: Roles) -> None:
    """So that the grants of the application hold for tables that come later, and the owner can upgrade."""
    store = await PostgresStore.open(roles.worker)
    await store.declare(declaration(embedder=EmbedderName(provider="fake", model="fake", dimensions=8)), now=NOON)
    await store.close()

    db = await asyncpg.connect(roles.admin)
    owners = await db.fetch("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'embedq'")
    await db.close()
    assert [row["tableowner"].rpartition("_")[0] for row in owners] == ["ada"]


async def test_an_application_can_do_a_workers_job_but_make_nothing(roles: Roles) -> None:
    """It may lease and settle; a new table is refused with a reason, an index is left to the owner, and told so."""
    told: list[Facts] = []

    def hear(event: Event, level: str, facts: Facts) -> None:
        del level
        told.extend([facts] if event is Event.INDEX else [])

    worker = await PostgresStore.open(roles.worker)
    await worker.declare(declaration(embedder=EmbedderName(provider="fake", model="fake", dimensions=8)), now=NOON)
    application = await PostgresStore.open(roles.application, index_from=WORTH, telemetry=Telemetry(hear))
    await write_many(application, WORTH)
    await embed_all(application)

    assert [await application.finish(now=NOON) for _ in range(2)] == [0, 0]
    assert [(facts["act"], "may build it" in facts["reason"]) for facts in told] == [("not_built", True)]
    with pytest.raises(StoreUnusable, match="made by the role that ran `embedq init`"):
        await application.declare(declaration("more", embedder=EmbedderName(provider="fake", model="b", dimensions=8)))
    await application.close()
    await worker.close()


async def test_without_grants_each_refusal_names_what_is_missing(postgres_url: str, roles: Roles) -> None:
    """From the first to the last: the database, the schema, its tables, its sequences."""
    db = await asyncpg.connect(postgres_url)
    database = await db.fetchval("SELECT current_database()")
    role = f"plain_{database[-8:]}"
    url = postgres_url.replace("postgres@", f"{role}@")
    await db.execute(f"CREATE ROLE {role} LOGIN")

    async def open_and_put() -> None:
        store = await PostgresStore.open(url)
        try:
            await write(store, "A")
        finally:
            await store.close()

    async def refusal() -> str:
        with pytest.raises(StoreUnusable) as refused:
            await open_and_put()
        return str(refused.value)

    try:
        store = await PostgresStore.open(roles.owner)
        await store.declare(declaration(), now=NOON)
        await store.close()
        await db.execute(f"REVOKE CONNECT ON DATABASE {database} FROM PUBLIC")
        assert f"GRANT CONNECT ON DATABASE {database}" in await refusal()
        await db.execute(f"GRANT CONNECT ON DATABASE {database} TO {role}")
        assert "GRANT USAGE ON SCHEMA embedq" in await refusal()
        await db.execute(f"GRANT USAGE ON SCHEMA embedq TO {role}")
        assert "ON ALL TABLES IN SCHEMA embedq" in await refusal()
        await db.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA embedq TO {role}")
        assert "GRANT USAGE ON ALL SEQUENCES IN SCHEMA embedq" in await refusal()
    finally:
        await db.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
        await db.close()


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
