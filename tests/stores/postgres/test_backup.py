"""What the page about backups says of PostgreSQL: which dumps are whole, and what the others take to go on."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.tables import attach, attach_docs, catch_up, pay

from embedq.model import Query
from embedq.stores.postgres import PostgresStore
from embedq.testing.postgres import PostgresAddress, PostgresFailed
from embedq.testing.postgres.binaries import run
from embedq.testing.stores.stage import NOTES, embed_all, vector_of, write

TRIGGERS = "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'public.docs'::regclass AND NOT tgisinternal"
FILLED = "SELECT count(*) FROM public.docs WHERE e IS NOT NULL"


@pytest.fixture
def empty(postgres_server: PostgresAddress) -> Iterator[str]:
    """The URL of a second database on the same server, with nothing in it."""
    name = f"restored_{uuid4().hex}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


@pytest_asyncio.fixture
async def busy(store: PostgresStore, db: asyncpg.Connection) -> AsyncIterator[PostgresStore]:
    """Open a store with an embedded and a pending record, and an attached table of three rows."""
    await write(store, "embedded", "e")
    await embed_all(store)
    await attach_docs(store, db, rows=3)
    await write(store, "pending", "p")
    yield store


def dump(server: PostgresAddress, url: str, to: Path, *options: str) -> None:
    """Dump a database."""
    run([server.binaries / "pg_dump", "--format=custom", *options, f"--file={to}", url])


def restore(server: PostgresAddress, path: Path, url: str, *options: str) -> None:
    """Restore a dump."""
    run([server.binaries / "pg_restore", *options, f"--dbname={url}", str(path)])


async def follows(store: PostgresStore, url: str) -> None:
    """See that a row that comes now gets its vector."""
    db = await asyncpg.connect(url)
    await db.execute("INSERT INTO public.docs VALUES (99, 'after the restore')")
    await catch_up(store)
    assert await db.fetchval("SELECT e IS NOT NULL FROM public.docs WHERE id = 99")
    await db.close()


async def test_a_whole_dump_is_a_whole_backup(
    busy: PostgresStore, postgres_url: str, postgres_server: PostgresAddress, empty: str, tmp_path: Path
) -> None:
    """Restored, it goes on: vectors are there, what was pending is embedded, tables are followed."""
    del busy
    dump(postgres_server, postgres_url, tmp_path / "whole")
    restore(postgres_server, tmp_path / "whole", empty)

    restored = await PostgresStore.open(empty)

    [hit] = await restored.search_vector(NOTES, vector_of("embedded"), Query(k=1))
    assert (hit.id, round(hit.score, 4)) == ("e", 1.0)
    assert await pay(restored) == {"pending"}
    await follows(restored, empty)
    await restored.close()


async def test_a_dump_of_the_tables_alone_is_restored_without_triggers(
    busy: PostgresStore, postgres_url: str, postgres_server: PostgresAddress, empty: str, tmp_path: Path
) -> None:
    """The rows are there with their vectors, and the table is attached again without paying for them."""
    del busy
    postgres_server.query("CREATE EXTENSION vector", database=urlsplit(empty).path[1:])
    dump(postgres_server, postgres_url, tmp_path / "tables", "--schema=public")
    with pytest.raises(PostgresFailed, match='schema "embedq" does not exist'):
        restore(postgres_server, tmp_path / "tables", empty)

    db = await asyncpg.connect(empty)
    assert (await db.fetchval(FILLED), await db.fetchval(TRIGGERS)) == (3, 0)
    restored = await PostgresStore.open(empty)
    await attach(restored, adopt=True)

    assert await pay(restored) == set()
    await follows(restored, empty)
    await restored.close()
    await db.close()


async def test_a_dump_of_embedq_alone_follows_the_tables_that_it_finds(
    busy: PostgresStore, postgres_url: str, postgres_server: PostgresAddress, empty: str, tmp_path: Path
) -> None:
    """Beside the same table its triggers are made again, and no row is paid for twice."""
    del busy
    postgres_server.query("CREATE EXTENSION vector", database=urlsplit(empty).path[1:])
    dump(
        postgres_server,
        postgres_url,
        tmp_path / "tables",
        "--table=public.docs",
        "--section=pre-data",
        "--section=data",
    )
    restore(postgres_server, tmp_path / "tables", empty)
    dump(postgres_server, postgres_url, tmp_path / "embedq", "--schema=embedq")
    restore(postgres_server, tmp_path / "embedq", empty)
    db = await asyncpg.connect(empty)
    await db.execute("ALTER TABLE public.docs ADD PRIMARY KEY (id)")
    assert await db.fetchval(TRIGGERS) == 0

    restored = await PostgresStore.open(empty)

    assert await pay(restored) == {"pending"}
    assert await db.fetchval(TRIGGERS) > 0
    await follows(restored, empty)
    await restored.close()
    await db.close()


async def test_a_dump_of_embedq_alone_without_its_table_says_so(
    busy: PostgresStore, postgres_url: str, postgres_server: PostgresAddress, empty: str, tmp_path: Path
) -> None:
    """Where the table is missing, its attachment cannot be restored; the other collections can."""
    del busy
    postgres_server.query("CREATE EXTENSION vector", database=urlsplit(empty).path[1:])
    dump(postgres_server, postgres_url, tmp_path / "embedq", "--schema=embedq")
    with pytest.raises(PostgresFailed, match=r'relation "public\.docs" does not exist'):
        restore(postgres_server, tmp_path / "embedq", empty)

    restored = await PostgresStore.open(empty)

    assert len(await restored.search_vector(NOTES, vector_of("embedded"), Query(k=1))) == 1
    await restored.close()
