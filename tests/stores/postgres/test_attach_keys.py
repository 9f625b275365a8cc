"""Keys of every kind: a row and its record find each other, whatever a session's settings are."""

# ruff: noqa: S608 (names of tables are put into statements here on purpose)

import json

import asyncpg
import pytest
from tests.stores.postgres.tables import attach, catch_up, in_step, one, records

from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS

# A type, three values that differ, and how the first reads as an id.
TYPES = {
    "smallint": ("1", "2", "-3", "1"),
    "bigint": ("9223372036854775807", "2", "3", "9223372036854775807"),
    "numeric": ("1.50", "2.0", "1e3", "1.50"),
    "numeric(10,2)": ("1.5", "2", "3", "1.50"),
    "real": ("0.1", "3.4e38", "-0", "0.1"),
    "double precision": ("0.1", "1e-300", "NaN", "0.1"),
    "text": ("a", 'odd [" \\ { } % $$ \' ü', "['x', 1]", "a"),
    'text COLLATE "C"': ("a", "B", "ä", "a"),
    "varchar(5)": ("abcde", "a", "e", "abcde"),
    "char(5)": ("ab", "c", "d", "ab"),
    '"char"': ("a", "b", "c", "a"),
    "name": ("a", "b", "c", "a"),
    "uuid": ("A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
             "c0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    "boolean": ("true", "false", None, "true"),
    "date": ("2024-02-01", "infinity", "0044-03-15 BC", "2024-02-01"),
    "timestamptz": ("2024-02-01 12:00:00.12+02", "infinity", "1999-01-01 00:00+00", "2024-02-01 10:00:00.12+00"),
    "timestamp": ("2024-02-01 12:00", "2024-02-02", "2024-02-03", "2024-02-01 12:00:00"),
    "time": ("12:00", "13:00", "14:00", "12:00:00"),
    "timetz": ("12:00+02", "13:00+00", "14:00+00", "12:00:00+02"),
    "interval": ("1 day 2 hours", "-1 month", "3 seconds", "1 day 02:00:00"),
    "bytea": ("\\x00ff", "\\x", "\\xabcd", "\\x00ff"),
    "inet": ("10.0.0.1", "10.0.0.0/8", "::1", "10.0.0.1/32"),
    "bit(4)": ("1010", "0001", "1111", "1010"),
    "int4range": ("[1,4)", "empty", "[7,9]", "[1,4)"),
    "tstzrange": ("[2024-01-01 00:00+01,2024-01-02 00:00+01)", "empty", "[2025-01-01 00:00+00,)",
                  '["2023-12-31 23:00:00+00","2024-01-01 23:00:00+00")'),
    "int[]": ("{1,2}", "{}", "{NULL}", "{1,2}"),
    "jsonb": ('{"a": 1}', "[]", '"x"', '{"a": 1}'),
    "mood": ("glad", "so so", "sad", "glad"),
    "short": ("abc", "d", "e", "abc"),
    "amount": ("1.0", "2.0", "3.0", "1.0"),
}  # fmt: skip
DEFINE = """
CREATE SCHEMA own;
CREATE TYPE own.mood AS ENUM ('sad', 'so so', 'glad');
CREATE DOMAIN own.short AS varchar(10) CHECK (value <> '');
CREATE DOMAIN own.amount AS numeric;
SET search_path = public, own;
"""
ODD_SESSION = """
SET TimeZone = 'Asia/Kathmandu'; SET DateStyle = 'SQL, DMY'; SET IntervalStyle = 'iso_8601';
SET extra_float_digits = -5; SET bytea_output = 'escape';
"""


async def make(db: asyncpg.Connection, kind: str) -> None:
    """Make a table with a key of this type."""
    await db.execute(DEFINE)
    await db.execute(f"CREATE TABLE docs (id {kind} PRIMARY KEY, body text, e vector({DIMENSIONS}))")


@pytest.mark.parametrize("postgres_version", [18])
@pytest.mark.parametrize("kind", TYPES)
async def test_a_key_of_any_type(store: PostgresStore, db: asyncpg.Connection, kind: str) -> None:
    """Rows are walked, edited, renamed and deleted by sessions with other settings, and records follow."""
    first, second, third, written = TYPES[kind]
    await make(db, kind)
    values = [value for value in (first, second, third) if value is not None]
    for place, value in enumerate(values[:2]):
        await db.execute(
            f"INSERT INTO docs VALUES (CAST($1::text AS {kind.split(' COLL', maxsplit=1)[0]}), $2)",
            value,
            f"text {place}",
        )
    await attach(store)
    await catch_up(store)
    assert written in await records(store)

    await db.execute(ODD_SESSION)
    name = kind.split(" COLL", maxsplit=1)[0]
    await db.execute(f"UPDATE docs SET body = 'edited' WHERE id = CAST($1::text AS {name})", first)
    await catch_up(store)
    assert (await records(store))[written] == "edited"
    if third is not None:
        await db.execute(
            f"UPDATE docs SET id = CAST($1::text AS {name}) WHERE id = CAST($2::text AS {name})", third, first
        )
    else:
        await db.execute(f"DELETE FROM docs WHERE id = CAST($1::text AS {name})", first)
    await catch_up(store)

    assert written not in await records(store)
    refused = (await one(store)).refusals
    assert len(await records(store)) + refused == await db.fetchval("SELECT count(*) FROM docs")
    assert await db.fetchval("SELECT count(*) FROM docs WHERE e IS NOT NULL") == len(await records(store))
    assert (await one(store)).problem is None


async def test_a_key_of_several_columns(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The id is a JSON list of texts in the index's order, and any character is one."""
    parts = ['a"b', "c\\d", "[1, 2]", "", "new\nline", "名", "'", "{}", "NULL"]
    columns = f"part text, day date, id int, body text, e vector({DIMENSIONS}), PRIMARY KEY (id, day, part)"
    await db.execute(f"CREATE TABLE docs ({columns})")
    for place, part in enumerate(parts):
        await db.execute("INSERT INTO docs VALUES ($1, '2024-02-01', $2, $3)", part, place, f"text {place}")
    await db.execute("SET DateStyle = 'German'")
    await attach(store, key=("part", "id", "day"))
    await catch_up(store)
    await db.execute("UPDATE docs SET body = body || '!' WHERE id % 2 = 0")
    await db.execute("UPDATE docs SET day = '2024-02-02' WHERE id = 1; DELETE FROM docs WHERE id = 2")
    await catch_up(store)

    ids = {tuple(json.loads(id_)) for id_ in await records(store)}
    days = {1: "2024-02-02"}
    expected = {(str(place), days.get(place, "2024-02-01"), part) for place, part in enumerate(parts) if place != 2}
    assert ids == expected
    assert await db.fetchval("SELECT count(*) FROM docs WHERE e IS NOT NULL") == len(expected)
    assert (await one(store)).refusals == 0


@pytest.mark.parametrize(
    ("key", "reason"),
    [("x" * 513, "512 bytes"), ("ü" * 257, "512 bytes"), ("", "512 bytes"), ("a\nb", "control"), ("a\x7f", "control"),
     ("a\x9fb", "control")],
)  # fmt: skip
async def test_a_key_that_can_be_no_id_is_refused(
    store: PostgresStore, db: asyncpg.Connection, key: str, reason: str
) -> None:
    """It is listed with a reason, others go on, and a better key heals it."""
    await db.execute(f"CREATE TABLE docs (id text PRIMARY KEY, body text, e vector({DIMENSIONS}))")
    await db.execute("INSERT INTO docs VALUES ($1, 'odd'), ('b', 'two'), ($2, 'long')", key, "y" * 512)
    await attach(store)

    assert await catch_up(store) == 2

    now = await one(store)
    assert list(now.refused) == [key]
    assert reason in now.refused[key]
    await db.execute("UPDATE docs SET id = 'good' WHERE id = $1", key)
    assert await catch_up(store) == 1
    assert (await one(store)).refusals == 0
    assert await in_step(store, db) == 3


@pytest.mark.parametrize(("kind", "first", "second"), [("numeric", "1.0", "1.00"), ("interval", "1 day", "24:00:00")])
async def test_equal_keys_that_are_written_otherwise(
    store: PostgresStore, db: asyncpg.Connection, kind: str, first: str, second: str
) -> None:
    """A key that changes only its writing changes its record's id: the row has one record and one vector."""
    await make(db, kind)
    await db.execute(f"INSERT INTO docs VALUES ('{first}', 'text')")
    await attach(store)
    await catch_up(store)

    await db.execute(f"UPDATE docs SET id = '{second}'")
    await catch_up(store)

    assert await records(store) == {second: "text"}
    assert await db.fetchval("SELECT e IS NOT NULL FROM docs")
    await db.execute("DELETE FROM docs")
    await catch_up(store)
    assert await records(store) == {}


async def test_keys_may_grow(store: PostgresStore, db: asyncpg.Connection) -> None:
    """An integer key that becomes a bigint, a varchar that becomes longer: nothing is lost, cut or embedded again."""
    columns = f"id int, part varchar(5), body text, e vector({DIMENSIONS}), PRIMARY KEY (id, part)"
    await db.execute(f"CREATE TABLE docs ({columns})")
    await db.execute("INSERT INTO docs VALUES (1, 'abcde', 'one')")
    await attach(store, key=("id", "part"))
    await catch_up(store)

    await db.execute("ALTER TABLE docs ALTER id TYPE bigint, ALTER part TYPE varchar(20)")
    await db.execute("INSERT INTO docs VALUES (5000000000, 'abcdefghij', 'two'), (1, 'abcdefg', 'three')")
    await catch_up(store)
    store._check_at = 0.0
    await catch_up(store)

    assert set((await records(store)).values()) == {"one", "two", "three"}
    assert await db.fetchval("SELECT count(*) FROM docs WHERE e IS NOT NULL") == 3
    assert (await one(store)).problem is None
