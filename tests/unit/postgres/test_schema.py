"""Installing, upgrading, and refusing to."""

import asyncio

import asyncpg
import pytest

from embedq.errors import NotFound, SettingsError, StoreError, StoreUnusable
from embedq.stores.postgres import PostgresStore
from embedq.stores.postgres.address import parse
from embedq.stores.postgres.schema import install, migrations


async def test_two_may_install_at_once(postgres_url: str) -> None:
    """One does the work, the others find it done."""
    await asyncio.gather(*(install(parse(postgres_url)) for _ in range(5)))

    db = await asyncpg.connect(postgres_url)
    versions = [row["version"] for row in await db.fetch("SELECT version FROM embedq.migration ORDER BY version")]
    await db.close()
    assert versions == [version for version, _ in migrations()]


async def test_an_older_embedq_refuses_a_newer_schema(store: PostgresStore, postgres_url: str) -> None:
    """At the start, and when it is asked for its health, with both versions named."""
    db = await asyncpg.connect(postgres_url)
    await db.execute("INSERT INTO embedq.migration (version) VALUES (999)")
    await db.close()

    with pytest.raises(StoreUnusable, match="999"):
        await PostgresStore.open(postgres_url)
    with pytest.raises(StoreUnusable, match="999"):
        await store.check()


async def test_who_only_looks_changes_nothing(postgres_url: str) -> None:
    """A database without embedq, or with an older one, is refused and stays as it is."""
    with pytest.raises(NotFound, match="embedq init"):
        await PostgresStore.open(postgres_url, make=False)
    db = await asyncpg.connect(postgres_url)
    assert await db.fetchval("SELECT to_regnamespace('embedq') IS NULL")

    await (await PostgresStore.open(postgres_url)).close()
    await db.execute("DELETE FROM embedq.migration WHERE version = (SELECT max(version) FROM embedq.migration)")
    with pytest.raises(StoreUnusable, match="embedq init"):
        await PostgresStore.open(postgres_url, make=False)
    await db.close()


async def test_the_extension_may_live_in_a_schema_of_its_own(postgres_url: str) -> None:
    """Nothing rests on the search path, neither ours nor the application's."""
    db = await asyncpg.connect(postgres_url)
    await db.execute('CREATE SCHEMA "odd ""name"; CREATE EXTENSION vector SCHEMA "odd ""name"')
    await db.close()

    store = await PostgresStore.open(postgres_url)
    await store.check()
    await store.close()


async def test_a_user_who_may_not_create_the_extension_is_told(postgres_url: str) -> None:
    """The message says what to run, and as whom."""
    db = await asyncpg.connect(postgres_url)
    database = await db.fetchval("SELECT current_database()")
    user = f"plain_{database[-8:]}"
    await db.execute(f'CREATE ROLE "{user}" LOGIN; GRANT CREATE ON DATABASE "{database}" TO "{user}"')

    try:
        await PostgresStore.open(postgres_url.replace("postgres@", f"{user}@"))
    except StoreUnusable as refused:
        assert "CREATE EXTENSION vector" in str(refused)  # noqa: PT017 a trusted extension may be created after all
    finally:
        await db.execute(f'DROP OWNED BY "{user}" CASCADE; DROP ROLE "{user}"')
        await db.close()


async def test_a_database_that_is_not_there_is_named(postgres_url: str) -> None:
    """Without its password."""
    url = postgres_url.rpartition("/")[0].replace("postgres@", "postgres:secret@") + "/nowhere"

    with pytest.raises(StoreUnusable, match="nowhere") as refused:
        await PostgresStore.open(url)

    assert "secret" not in str(refused.value)


async def test_a_server_that_is_not_there_may_come_back() -> None:
    """It is no reason to give up."""
    with pytest.raises(StoreError) as refused:
        await PostgresStore.open("postgresql://postgres:secret@127.0.0.1:1/x")

    assert not isinstance(refused.value, StoreUnusable)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["mysql://x/y", "postgresql://h/db?pooler=sometimes"])
def test_a_url_that_cannot_be_meant_is_refused(url: str) -> None:
    """The setting is named."""
    with pytest.raises(SettingsError, match="EMBEDQ_URL"):
        parse(url)


def test_the_pooler_is_ours_and_the_rest_is_the_drivers() -> None:
    """Several hosts and what the driver knows go through untouched."""
    address = parse("postgresql://u:p@a:1,b:2/db?pooler=transaction&target_session_attrs=read-write")

    assert address.dsn == "postgresql://u:p@a:1,b:2/db?target_session_attrs=read-write"
    assert (address.pooler, address.shown) == (True, "a:1,b:2/db")
