"""A name is a name, whatever is in it."""

# ruff: noqa: S608 (names of tables are put into statements here on purpose)

import asyncpg
import pytest
from tests.stores.postgres.tables import attach, catch_up, in_step, one, records

from embedq.errors import Invalid, NotFound
from embedq.model import Query
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS

VICTIM = "CREATE TABLE victim (id int)"
NAMES = [
    "two words", "quo'te", 'double"quote', "dot.dot", "com,ma", "per%cent %s %I", "{braces} {id} {0}", "$embedq$", "$$",
    "$1", "back\\slash", "\\'; --", "Ünïcödé 名前", "select", "CamelCase", "x; DROP TABLE victim; --", "n" * 63,
    "ü" * 31, '"); DROP TABLE victim; --', "tab\tnew\nline", "-- comment", "/* comment", "E'x'", ":colon ::text",
    "embedq_new",
]  # fmt: skip
COLUMNS = [
    "id", "text", "key", "r", "u", "w", "x", "v", "h", "d", "c", "c0", "priority", "tenant", "copied", "found", "new",
    "old", "held", "fits", "placed", "rest", "p_ids", "p_records", "p_after", "p_limit", "p_lanes", "embedding", "hash",
    "live", "rid", "attributes", "keys", "tg_op", "sqlerrm", "user", "order", "table", "ours", "done",
]  # fmt: skip


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


async def check(store: PostgresStore, db: asyncpg.Connection, table: str, key: str, text: str, into: str) -> None:
    """Write, edit, rename a key, and delete; everything follows."""
    k, t, e = quoted(key), quoted(text), quoted(into)
    await db.execute(f"INSERT INTO {table} ({k}, {t}) SELECT n::text, 'text ' || n FROM generate_series(1, 4) n")
    await catch_up(store)
    await db.execute(f"UPDATE {table} SET {t} = 'edited' WHERE {k} = '1'; UPDATE {table} SET {k} = '9' WHERE {k} = '2'")
    await db.execute(f"DELETE FROM {table} WHERE {k} = '3'; INSERT INTO {table} ({k}, {t}) VALUES ('7', 'seven')")
    await catch_up(store)
    rows = f"SELECT {k}::text AS id, {t} AS text, {e}::text AS e FROM {table}"
    assert await in_step(store, db, rows=rows, name="docs") == 4
    now = await one(store)
    assert (now.problem, now.refusals) == (None, 0)


@pytest.mark.parametrize("postgres_version", [18])
@pytest.mark.parametrize("name", NAMES)
async def test_any_name_can_be_attached(store: PostgresStore, db: asyncpg.Connection, name: str) -> None:
    """As a schema, a table, a key, a text, an attribute, a tenant and a target at once; and nothing else is touched."""
    schema, table, size = quoted(name), f"{quoted(name)}.{quoted(name)}", f"vector({DIMENSIONS})"
    key, text, into, more = name, f"t{name}"[:40], f"e{name}"[:40], f"a{name}"[:40]
    await db.execute(VICTIM)
    await db.execute(f"CREATE SCHEMA {schema}")
    await db.execute(
        f"CREATE TABLE {table} ({quoted(key)} text PRIMARY KEY, {quoted(text)} text, {quoted(into)} {size}, "
        f"{quoted(more)} text DEFAULT 'red')"
    )

    await attach(
        store, f"{name}.{name}", key=[key], text=[text], into=into, attributes=(more,), tenant=more,
        priority=f"CASE {quoted(more)} WHEN 'red' THEN 'high' END",
    )  # fmt: skip

    await check(store, db, table, key, text, into)
    assert await db.fetchval("SELECT to_regclass('victim') IS NOT NULL")
    [hit] = await store.search_words("docs", "edited", Query(k=5, tenant="red"))
    assert (hit.id, hit.attributes) == ("1", {more: "red"})
    await store.detach("docs")


@pytest.mark.parametrize("postgres_version", [18])
@pytest.mark.parametrize("name", COLUMNS)
async def test_columns_may_be_called_what_we_call_things(
    store: PostgresStore, db: asyncpg.Connection, name: str
) -> None:
    """Names of our own tables, variables and arguments are free for the application to use."""
    others = [other for other in COLUMNS if other not in {name, "target"}]
    columns = ", ".join(f"{quoted(other)} text DEFAULT 'no'" for other in others)
    await db.execute(f"CREATE TABLE r ({quoted(name)} text PRIMARY KEY, body text, e vector({DIMENSIONS}), {columns})")

    await attach(store, "r", key=[name], text=["body"], into="e", priority="r.body", attributes=(others[0],))

    await check(store, db, "r", name, "body", "e")


async def test_a_bare_name_is_looked_up_as_sql_does(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The search path decides, a schema may be named, quoted names are read as SQL reads them."""
    await db.execute("CREATE SCHEMA other; CREATE TABLE other.docs (id int PRIMARY KEY, body text)")
    await db.execute(
        'CREATE TABLE "Docs" (id int PRIMARY KEY, body text); CREATE TABLE "other.docs" (id int PRIMARY KEY)'
    )
    with pytest.raises(NotFound, match="there is no table 'docs'"):
        await attach(store, into=None)

    first = await attach(store, 'other."docs"', into=None)
    second = await attach(store, '"Docs"', into=None, name="second")
    third = await attach(store, "Docs", into=None, name="third")

    assert [one.attachment.table for one in (first, second, third)] == ["other.docs", 'public."Docs"', 'public."Docs"']
    with pytest.raises(Invalid, match="has no column 'body'"):
        await attach(store, "other.docs", into=None, name="fourth")  # the visible table of that very name


@pytest.mark.parametrize(
    "name", ["", "no", "no.such", '"unclosed', "a.b.c.d", "docs; DROP TABLE victim", "x" * 500, "nul\0"]
)
async def test_a_name_of_nothing_is_told(store: PostgresStore, db: asyncpg.Connection, name: str) -> None:
    """What is no table is not found, in whatever way it is written."""
    await db.execute(VICTIM)

    with pytest.raises(NotFound):
        await attach(store, name)

    assert await db.fetchval("SELECT to_regclass('victim') IS NOT NULL")
    assert await store.attached() == []


async def test_functions_of_others_are_not_called(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Functions beside the table that are called like the system's own are not run in their place."""
    await db.execute("""
        CREATE TABLE log (said text);
        CREATE FUNCTION concat_ws(text, text) RETURNS text LANGUAGE sql AS 'INSERT INTO log VALUES ($1) RETURNING $1';
        CREATE FUNCTION jsonb_build_object(text, text) RETURNS jsonb LANGUAGE sql
          AS $$INSERT INTO log VALUES ($1) RETURNING '{}'::jsonb$$;
        CREATE FUNCTION jsonb_build_array(text, text) RETURNS jsonb LANGUAGE sql
          AS $$INSERT INTO log VALUES ($1) RETURNING '[]'::jsonb$$;
    """)
    await db.execute(
        f"CREATE TABLE docs (id int, part text, body text, e vector({DIMENSIONS}), PRIMARY KEY (id, part))"
    )
    await attach(store, key=("id", "part"), attributes=("part",))
    await db.execute("INSERT INTO docs VALUES (1, 'a', 'one')")

    await catch_up(store)

    assert await records(store) == {'["1", "a"]': "one"}
    assert await db.fetchval("SELECT count(*) FROM docs WHERE e IS NOT NULL") == 1
    assert await db.fetch("SELECT * FROM log") == []
