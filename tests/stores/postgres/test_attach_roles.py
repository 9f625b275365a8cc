"""Whose a table is, and who works on it: an ordinary role is enough, and trusts nobody's functions."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.tables import CREATE, attach, catch_up, in_step, one, records

from embedq.errors import Conflict, Invalid
from embedq.stores.postgres import PostgresStore


@dataclass
class Owner:
    """A role that owns its database and may do nothing else."""

    name: str
    store: PostgresStore
    db: asyncpg.Connection


@pytest_asyncio.fixture
async def owner(postgres_url: str) -> AsyncIterator[Owner]:
    """Install embedq as an ordinary role, in a database of its own."""
    admin = await asyncpg.connect(postgres_url)
    database = await admin.fetchval("SELECT current_database()")
    role = f"owner_{database}"
    await admin.execute(f'CREATE ROLE "{role}" LOGIN; ALTER DATABASE "{database}" OWNER TO "{role}"')
    await admin.execute("CREATE EXTENSION IF NOT EXISTS vector")
    url = postgres_url.replace("postgres@", f"{role}@")
    store = await PostgresStore.open(url)
    db = await asyncpg.connect(url)
    yield Owner(role, store, db)
    await store.close()
    await db.close()
    await admin.execute(f'ALTER DATABASE "{database}" OWNER TO postgres; REASSIGN OWNED BY "{role}" TO postgres')
    await admin.execute(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')
    await admin.close()


async def test_an_ordinary_role_is_enough(owner: Owner) -> None:
    """Attach, follow, copy vectors into the table and detach need no superuser."""
    assert not await owner.db.fetchval("SELECT usesuper FROM pg_user WHERE usename = current_user")
    await owner.db.execute(CREATE)
    await owner.db.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, 5) n")
    await attach(owner.store)
    await catch_up(owner.store)
    await owner.db.execute("UPDATE docs SET body = 'edited' WHERE id = 1; DELETE FROM docs WHERE id = 2")
    await catch_up(owner.store)

    assert await in_step(owner.store, owner.db) == 4
    await owner.store.detach("docs")
    assert await owner.db.fetchval("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'docs'::regclass") == 0


async def test_anothers_table_is_refused(owner: Owner, postgres_url: str) -> None:
    """Whoever may make triggers but does not own the table could not take them away again."""
    admin = await asyncpg.connect(postgres_url)
    await admin.execute(f'{CREATE}; GRANT SELECT, TRIGGER, UPDATE ON docs TO "{owner.name}"')
    try:
        with pytest.raises(Invalid, match="belongs to postgres"):
            await attach(owner.store)
    finally:
        await admin.execute("DROP TABLE docs")
        await admin.close()


async def test_a_column_holds_the_vectors_of_one_collection(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Two would overwrite each other's."""
    await db.execute(CREATE)
    await attach(store)

    with pytest.raises(Conflict, match="holds the vectors of collection 'docs'"):
        await attach(store, name="second")

    await attach(store, name="second", into=None)
    await attach(store)


async def test_no_cast_and_no_operator_of_the_owners_is_run(store: PostgresStore, db: asyncpg.Connection) -> None:
    """They would run as whoever runs the workers."""
    await db.execute("""
        CREATE TABLE called (what text);
        CREATE TYPE mood AS ENUM ('glad', 'sad');
        CREATE FUNCTION as_text(mood) RETURNS text LANGUAGE plpgsql AS
          $$ BEGIN INSERT INTO public.called VALUES ('cast'); RETURN 'cast'; END $$;
        CREATE CAST (mood AS text) WITH FUNCTION as_text(mood);
        CREATE FUNCTION same(varchar, varchar) RETURNS boolean LANGUAGE plpgsql AS
          $$ BEGIN INSERT INTO public.called VALUES ('operator'); RETURN true; END $$;
        CREATE OPERATOR = (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = same);
        CREATE OPERATOR > (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = same);
        CREATE TABLE docs (id varchar(20) PRIMARY KEY, body mood, e vector(8));
        INSERT INTO docs VALUES ('a', 'glad');
    """)
    await attach(store)
    await catch_up(store)
    await db.execute("UPDATE docs SET body = 'sad'")
    await catch_up(store)

    assert await records(store) == {"a": "sad"}
    assert await db.fetch("SELECT * FROM called") == []


async def test_a_published_database_goes_on(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Logical replication of all tables refuses to delete what nothing identifies."""
    await db.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    await db.execute(CREATE)
    await db.execute("INSERT INTO docs VALUES (1, 'one')")
    await attach(store)
    await catch_up(store)

    assert await in_step(store, db) == 1
    assert (await one(store)).problem is None
    unknown = await db.fetch("""
        SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'embedq'
        WHERE c.relkind = 'r' AND c.relreplident = 'd'
          AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)
    """)
    assert unknown == []
