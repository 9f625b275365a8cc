"""What a stranger puts into `public`: functions and operators that fit our statements better than the system's."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.roles import Roles
from tests.stores.postgres.tables import attach, catch_up

from embedq.model import EmbedderName, JobFilter, JobStatus, Patch, Query, RecordId
from embedq.policy.filters import read_filter
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import NOON, NOTES, declaration, embed_all, vector_of, write, write_many

WORTH = 20
CALLED = "DECLARE n int; BEGIN INSERT INTO public.called VALUES (current_user, {said}); RETURN {given}; END"
TRAP = "CREATE FUNCTION public.{name}({takes}) RETURNS {gives} LANGUAGE plpgsql AS $$ {body} $$"
# What our statements call with arguments that the system has no function of just these types for.
FUNCTIONS = (
    *(("unnest", f"{kind}[]", f"SETOF {kind}") for kind in ("text", "int", "bigint", "bytea", "smallint", "regtype")),
    *(("format", f"text, {kind}", "text") for kind in ("int", "bigint", "text", "name")),
    ("format", "text, text, text", "text"),
    ("format", "text, name, name", "text"),
    *(("concat_ws", f"text, int, {rest}", "text") for rest in ("numeric, bigint", "int, bigint, bigint")),
    *(("cardinality", f"{kind}[]", "int") for kind in ("text", "int", "bigint")),
    *(("array_position", f"{kind}[], {kind}", "int") for kind in ("text", "int", "bigint")),
    *(("to_json", kind, "json") for kind in ("text[]", "text")),
    ("to_regclass", "varchar", "regclass"),
    ("nextval", "text", "bigint"),
    ("setval", "text, bigint", "bigint"),
    ("pg_notify", "varchar, varchar", "void"),
)
OPERATORS = (
    ("-", "int", "float8", "float8"),
    ("+", "float8", "numeric", "float8"),
    ("&", "bigint", "int", "bigint"),
    ("*", "numeric", "int", "numeric"),
    ("*", "interval", "bigint", "interval"),
    ("=", "regclass", "oid", "boolean"),
    ("||", "bigint[]", "bigint[]", "bigint[]"),
    ("||", "text", "int", "text"),
    ("/", "int", "float8", "float8"),
)


def traps() -> list[str]:
    """Write everything that a stranger leaves lying about."""
    written = ["CREATE TABLE public.called (by name, what text); GRANT ALL ON public.called TO PUBLIC"]
    for name, takes, gives in FUNCTIONS:
        given = "" if gives.startswith(("SETOF", "void")) else "NULL"
        body = CALLED.format(said=f"'{name}({takes})'", given=given)
        written.append(TRAP.format(name=name, takes=takes, gives=gives, body=body))
    for number, (sign, left, right, gives) in enumerate(OPERATORS):
        body = CALLED.format(said=f"'{left} {sign} {right}'", given="NULL")
        written.append(TRAP.format(name=f"trap_{number}", takes=f"{left}, {right}", gives=gives, body=body))
        written.append(
            f"CREATE OPERATOR public.{sign} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = public.trap_{number})"
        )
    return written


@pytest_asyncio.fixture
async def trapped(roles: Roles) -> AsyncIterator[Roles]:
    """Let the stranger set the traps; at the end, see that nobody walked into one."""
    db = await asyncpg.connect(roles.stranger)
    for statement in traps():
        await db.execute(statement)
    yield roles
    assert await db.fetch("SELECT * FROM public.called") == []
    await db.close()


async def test_the_traps_bite(roles: Roles) -> None:
    """A session that searches `public` does call them, so that the other tests prove something."""
    db = await asyncpg.connect(roles.stranger)
    for statement in traps():
        await db.execute(statement)
    await db.fetch("SELECT * FROM unnest('{a}'::text[])")
    await db.fetch("SELECT 1 - 2::float8, format('%s', 1)")
    assert await db.fetchval("SELECT count(*) FROM public.called") == 3
    await db.close()


@pytest.mark.parametrize("pooler", [False, True])
async def test_no_statement_of_ours_calls_a_strangers_function(trapped: Roles, *, pooler: bool) -> None:
    """Not as the owner, from the first put to the last search, directly and where no session is ours."""
    store = await PostgresStore.open(trapped.owner, pooler=pooler, index_from=WORTH)
    await store.declare(declaration(embedder=EmbedderName(provider="fake", model="fake", dimensions=8)), now=NOON)
    await write_many(store, WORTH + 5)
    await embed_all(store)
    assert await store.finish(now=NOON) == 1
    await write(store, "weaving", "a")
    await store.patch(NOTES, RecordId("a"), Patch(text="spinning"), now=NOON)
    await look_at_everything(store)
    await store.recount(NOTES)
    await store.rescue(now=NOON)
    await store.reconcile(NOTES, [RecordId("a")], now=NOON)
    await store.purge(older_than=NOON - NOON, now=NOON)
    await store.pause()
    await store.resume()
    await store.delete(NOTES, [RecordId("a")], purge=True, now=NOON)
    await store.drop(NOTES, now=NOON)
    await store.close()


async def look_at_everything(store: PostgresStore) -> None:
    """Read by every way there is."""
    await store.get(NOTES, [RecordId("a")], with_vectors=True)
    for status in (None, "pending", "embedded", "failed"):
        await store.records(NOTES, status=status)
    for shown in (None, *JobStatus):
        await store.jobs(JobFilter(status=shown), limit=3)
    assert len(await store.search_vector(NOTES, vector_of("x"), Query(k=3, filter=read_filter({})))) == 3
    assert len(await store.search_words(NOTES, "text", Query(k=3))) == 3
    await store.freshness(NOTES)
    await store.counts()
    await store.missing(NOTES)
    await store.oldest_pending()
    await store.dead_stats()
    await store.budgets()
    await store.check()


@pytest.mark.parametrize("pooler", [False, True])
async def test_no_attached_table_calls_a_strangers_function(trapped: Roles, *, pooler: bool) -> None:
    """Not for keys, texts, attributes and vectors, nor for a priority that names functions without a schema."""
    db = await asyncpg.connect(trapped.stranger)
    await db.execute("""
        CREATE FUNCTION public.lower(varchar) RETURNS text LANGUAGE plpgsql AS
          $$ BEGIN INSERT INTO public.called VALUES (current_user, 'lower'); RETURN 'urgent'; END $$
    """)
    ada = await asyncpg.connect(trapped.owner)
    await ada.execute("CREATE TABLE public.docs (id int, part int, body text, rank varchar, e vector(8))")
    await ada.execute("ALTER TABLE public.docs ADD PRIMARY KEY (part, id)")
    await ada.execute("INSERT INTO public.docs VALUES (1, 2, 'weaving', 'LOW')")
    store = await PostgresStore.open(trapped.owner, pooler=pooler)
    await attach(store, key=("id", "part"), attributes=("rank",), tenant="rank", priority="lower(rank)")
    await catch_up(store)
    await ada.execute("UPDATE public.docs SET body = 'spinning'")
    await catch_up(store)

    [found] = await store.attached()
    assert found.problem is None
    assert await ada.fetchval("SELECT e IS NOT NULL FROM public.docs")
    await store.detach("docs")
    await store.close()
    await ada.close()
    await db.close()


async def test_nothing_of_a_strangers_is_built_into_ours(postgres_url: str) -> None:
    """An installation in a database where the traps lie already binds its defaults and functions to the system's."""
    db = await asyncpg.connect(postgres_url)
    await db.execute("CREATE EXTENSION vector")
    for statement in traps():
        await db.execute(statement)
    store = await PostgresStore.open(postgres_url)
    await store.declare(declaration(), now=NOON)
    await write(store, "weaving", "a")
    await store.close()

    assert await db.fetch("SELECT * FROM public.called") == []
    await db.close()
