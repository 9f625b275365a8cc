"""Installing, upgrading, and refusing to."""

import asyncio
from urllib.parse import urlsplit

import asyncpg
import pytest

from embedq.errors import NotFound, SettingsError, StoreError, StoreUnusable
from embedq.stores.postgres import PostgresStore, schema
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


@pytest.mark.parametrize(
    ("server", "vector", "said"),
    [
        (14, "0.8.0", "is PostgreSQL 14, embedq needs 16 or newer"),
        (16, "0.5.1", "has pgvector 0.5.1, embedq needs 0.8 or newer: .* ALTER EXTENSION vector UPDATE"),
        (18, "0.7.4", "has pgvector 0.7.4"),
    ],
)
@pytest.mark.parametrize("make", [True, False])
async def test_what_is_too_old_is_refused_at_once(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, server: int, vector: str, said: str, *, make: bool
) -> None:
    """In one line with both versions, before anything is made."""
    monkeypatch.setattr(schema, "VERSIONS", f"SELECT {server} AS server, '{vector}' AS vector")

    with pytest.raises(StoreUnusable, match=said):
        await PostgresStore.open(postgres_url, make=make)

    db = await asyncpg.connect(postgres_url)
    assert await db.fetchval("SELECT to_regnamespace('embedq') IS NULL")
    await db.close()


@pytest.mark.parametrize("vector", ["0.8.0", "0.10.0", "1.0"])
async def test_what_is_new_enough_is_taken(postgres_url: str, monkeypatch: pytest.MonkeyPatch, vector: str) -> None:
    """Versions are numbers: 0.10 is newer than 0.8."""
    monkeypatch.setattr(schema, "VERSIONS", f"SELECT 16 AS server, '{vector}' AS vector")

    await (await PostgresStore.open(postgres_url)).close()


async def test_an_extension_is_checked_when_it_was_just_made(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host may carry an old pgvector: nothing of it is left behind."""
    old = "SELECT 16 AS server, (SELECT '0.6.0' FROM pg_extension WHERE extname = 'vector') AS vector"
    monkeypatch.setattr(schema, "VERSIONS", old)

    with pytest.raises(StoreUnusable, match=r"0\.6\.0"):
        await PostgresStore.open(postgres_url)

    db = await asyncpg.connect(postgres_url)
    assert await db.fetchval("SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == 0
    await db.close()


async def test_a_database_that_is_not_there_is_named(postgres_url: str) -> None:
    """Without its password, and with what to do."""
    url = postgres_url.rpartition("/")[0].replace("postgres@", "postgres:secret@") + "/nowhere"

    with pytest.raises(StoreUnusable, match="run `createdb nowhere`, or name another database") as refused:
        await PostgresStore.open(url)

    assert "secret" not in str(refused.value)
    assert "init" not in str(refused.value)


async def test_a_url_without_database_is_told_of_the_one_that_was_looked_for(postgres_url: str) -> None:
    """The driver takes the user's name for it."""
    db = await asyncpg.connect(postgres_url)
    user = f"plain_{urlsplit(postgres_url).path[-8:]}"
    await db.execute(f"CREATE ROLE {user} LOGIN")

    with pytest.raises(StoreUnusable, match=f"run `createdb {user}`, or name another database"):
        await PostgresStore.open(postgres_url.rpartition("/")[0].replace("postgres@", f"{user}@"))

    await db.execute(f"DROP ROLE {user}")
    await db.close()


@pytest.mark.parametrize("parameter", ["foo=bar", "work_mem=much"])
async def test_a_parameter_that_the_server_does_not_take_is_the_urls(postgres_url: str, parameter: str) -> None:
    """Nothing has to be installed for it."""
    with pytest.raises(StoreUnusable, match=f"EMBEDQ_URL: .*{parameter.partition('=')[0]}.*correct it") as refused:
        await PostgresStore.open(f"{postgres_url}?{parameter}")

    assert "init" not in str(refused.value)


async def test_a_server_that_is_not_there_may_come_back() -> None:
    """It is no reason to give up; but nobody promises that somebody goes on."""
    with pytest.raises(StoreError, match="cannot be reached") as refused:
        await PostgresStore.open("postgresql://postgres:secret@127.0.0.1:1/x")

    assert not isinstance(refused.value, StoreUnusable)
    assert "by itself" not in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["mysql://x/y", "postgresql://h/db?pooler=sometimes"])
def test_a_url_that_cannot_be_meant_is_refused(url: str) -> None:
    """The setting is named."""
    with pytest.raises(SettingsError, match="EMBEDQ_URL"):
        parse(url)


@pytest.mark.parametrize("where", ["a@h:abc/db", "a@h:1,g:2x/db", "a@[::1]:70000/db", "a@h:0/db", "a@h/db?port=x"])
def test_a_port_that_is_none_is_named(where: str) -> None:
    """Not in the words of whoever tried to read it."""
    with pytest.raises(SettingsError, match="EMBEDQ_URL: the port is not a number from 1 to 65535"):
        parse(f"postgresql://{where}")


@pytest.mark.parametrize(
    "where", ["a:b@h/db", "h:5432/db", "[::1]/db", "[::1]:5432/db", "a:1,b/db", "%2Ftmp/db", "/db"]
)
def test_a_port_may_be_left_out(where: str) -> None:
    """Wherever a host may stand without one."""
    assert parse(f"postgresql://{where}").shown.endswith("/db")


def test_the_pooler_is_ours_and_the_rest_is_the_drivers() -> None:
    """Several hosts and what the driver knows go through untouched."""
    address = parse("postgresql://u:p@a:1,b:2/db?pooler=transaction&target_session_attrs=read-write")

    assert address.dsn == "postgresql://u:p@a:1,b:2/db?target_session_attrs=read-write"
    assert (address.pooler, address.shown) == (True, "a:1,b:2/db")


async def test_a_dropped_extension_is_told(postgres_url: str) -> None:
    """Vectors went with it: no command of ours brings them back, and none says that it would."""
    await schema.install(parse(postgres_url))
    db = await asyncpg.connect(postgres_url)
    await db.execute("DROP EXTENSION vector CASCADE")
    await db.close()

    with pytest.raises(StoreUnusable, match="every vector with it"):
        await schema.install(parse(postgres_url))


def test_a_piece_of_a_password_is_not_shown() -> None:
    """A slash that is not written as %2F cuts a password in two, and its beginning looks like a port."""
    with pytest.raises(SettingsError) as caught:
        parse("postgresql://ada:sek/ret@localhost/shop")

    assert "sek" not in str(caught.value)
