"""A database whose own collation is ICU's, and in a language with letters of its own."""

import asyncio
from collections.abc import Iterator
from uuid import uuid4

import asyncpg
import pytest
from tests.stores.postgres.tables import attach, catch_up, in_step, mend, one, records

from embedq.model import Priority
from embedq.stores.postgres import PostgresStore
from embedq.stores.postgres.address import parse
from embedq.stores.postgres.schema import install
from embedq.testing.postgres import PostgresAddress
from embedq.testing.stores.stage import DIMENSIONS, take


@pytest.fixture(scope="session")
def turkish(postgres_icu: PostgresAddress) -> Iterator[str]:
    name = f"turkish_{uuid4().hex}"
    postgres_icu.query(f"CREATE DATABASE {name} TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'tr'")
    asyncio.run(install(parse(postgres_icu.url(name))))
    yield name
    postgres_icu.drop_database(name)


@pytest.fixture
def postgres_template(turkish: str) -> str:
    return turkish


async def test_a_lane_is_read_in_any_case(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The lower case of HIGH is another word in Turkish."""
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, body text, lane text)")
    await attach(store, into=None, priority="lane")
    await catch_up(store)
    await db.execute("INSERT INTO docs VALUES (1, 'one', 'HIGH')")
    await store.gather()

    [lease] = await take(store)
    job = await store.job(lease.job_id)
    assert job.priority == Priority.HIGH


async def test_a_table_is_followed(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Walked in pages in the order of the language, edited and renamed, and walked again."""
    await db.execute(f"CREATE TABLE docs (id text PRIMARY KEY, body text, e vector({DIMENSIONS}))")
    letters = "unnest('{I,İ,i,\u0131,a,B,ç,Ö,z}'::text[]) u"
    await db.execute(f"INSERT INTO docs SELECT u || n, 'Text ' || u FROM {letters}, generate_series(1, 9) n")  # noqa: S608 ours
    await attach(store)
    while await store.gather(limit=4):
        pass
    assert (await one(store)).seen == 81
    await catch_up(store)
    assert await in_step(store, db) == 81

    await db.execute("UPDATE docs SET body = lower(body) WHERE id < 'i'; UPDATE docs SET id = 'İ' || id")
    await db.execute("ALTER TABLE docs DISABLE TRIGGER ALL; UPDATE docs SET id = 'x' || id WHERE id > 'Z'")
    await db.execute("ALTER TABLE docs ENABLE TRIGGER ALL")
    await mend(store)
    await catch_up(store)

    assert await in_step(store, db) == 81
    assert len(await records(store)) == 81
