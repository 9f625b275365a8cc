"""The database's functions are replaced by a version that has others, and what is stored stays."""

import asyncpg
import pytest
from tests.stores.postgres.older import install_as_0_2

from embedq.errors import StoreUnusable
from embedq.model import RetryPolicy
from embedq.stores.columns import write_retry
from embedq.stores.postgres import PostgresStore, functions, schema
from embedq.stores.postgres.address import parse
from embedq.testing.stores.stage import NOTES, embed_all, take, write

PUT = """
SELECT embedq.put('notes', 1, 1, '{1}', '{a}', '{weaving}', ARRAY[sha256('weaving')], '{NULL}', '{NULL}', '{1}', NULL,
  false)
"""


async def test_a_database_of_0_2_is_taken_over_with_its_jobs(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that its functions wrote are embedded by ours."""
    await install_as_0_2(postgres_url, monkeypatch)
    db = await asyncpg.connect(postgres_url)
    assert await db.fetchval("SELECT to_regclass('embedq.functions') IS NULL")
    old = await db.fetchval("SELECT count(*) FROM pg_proc WHERE pronamespace = 'embedq'::regnamespace")
    await db.execute("INSERT INTO embedq.space (provider, model) VALUES ('fake', 'fake')")
    await db.execute(
        "INSERT INTO embedq.collection (name, space, priority, retry, created_at) VALUES ('notes', 1, 1, $1, now())",
        write_retry(RetryPolicy()),
    )
    await db.execute(PUT)
    await db.close()

    store = await PostgresStore.open(postgres_url)
    assert [given.text for given in await take(store, at=None)] == ["weaving"]
    await store.close()
    assert old > 0


async def test_functions_are_replaced_once(postgres_url: str) -> None:
    """Whoever finds its own functions installed leaves them alone: other processes are using them."""
    await schema.install(parse(postgres_url))
    db = await asyncpg.connect(postgres_url)
    oids = "SELECT array_agg(oid ORDER BY oid) FROM pg_proc WHERE pronamespace = 'embedq'::regnamespace"
    before = await db.fetchval(oids)

    await schema.install(parse(postgres_url))
    assert await db.fetchval(oids) == before

    await db.execute("UPDATE embedq.functions SET digest = 'of another source'")
    await schema.install(parse(postgres_url))
    assert await db.fetchval(oids) != before
    assert await db.fetchval("SELECT digest FROM embedq.functions") == functions.digest()
    await db.close()


async def test_what_was_written_for_a_space_stays(store: PostgresStore, postgres_url: str) -> None:
    """Vectors are stored after the functions were replaced, as before."""
    await write(store, "weaving", "a")
    await embed_all(store)
    db = await asyncpg.connect(postgres_url)
    await db.execute("UPDATE embedq.functions SET digest = 'of another source'")
    await db.close()

    upgraded = await PostgresStore.open(postgres_url)
    await write(upgraded, "baking", "b")
    await embed_all(upgraded)
    assert [row.id for row in await upgraded.missing(NOTES, after=None, limit=10)] == []
    await upgraded.close()


@pytest.mark.parametrize("make", [True, False])
async def test_functions_of_a_newer_embedq_are_refused(store: PostgresStore, postgres_url: str, *, make: bool) -> None:
    """At the start, and when it is asked for its health, with both versions named."""
    db = await asyncpg.connect(postgres_url)
    await db.execute("UPDATE embedq.functions SET version = '99.1.0', digest = 'of another source'")
    await db.close()

    with pytest.raises(StoreUnusable, match=r"99\.1\.0"):
        await PostgresStore.open(postgres_url, make=make)
    with pytest.raises(StoreUnusable, match=r"99\.1\.0"):
        await store.check()


async def test_who_only_looks_replaces_no_functions(store: PostgresStore, postgres_url: str) -> None:
    """It is told which command does, and a process of the other version says so too."""
    db = await asyncpg.connect(postgres_url)
    await db.execute("UPDATE embedq.functions SET version = '0.0.1', digest = 'of another source'")
    await db.close()

    with pytest.raises(StoreUnusable, match="embedq init"):
        await PostgresStore.open(postgres_url, make=False)
    with pytest.raises(StoreUnusable, match="same version everywhere"):
        await store.check()
