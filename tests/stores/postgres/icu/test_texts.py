"""Texts are made of bytes: no collation decides what is empty, and columns of several collations make one text."""

import asyncpg
import pytest
from tests.stores.postgres.tables import attach, catch_up, one, pay, records

from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS

OWN = "[" + ",".join(["1"] * DIMENSIONS) + "]"


@pytest.mark.parametrize("kind", ["text COLLATE any_mark", "citext COLLATE any_mark"])
async def test_a_text_that_a_collation_calls_empty(store: PostgresStore, db: asyncpg.Connection, kind: str) -> None:
    """Marks are a text too, alone and beside another."""
    await db.execute(f"CREATE TABLE docs (id int PRIMARY KEY, title {kind}, body {kind})")
    await db.execute("INSERT INTO docs VALUES (1, '---', 'loom'), (2, '', 'loom'), (3, '?!', NULL), (4, '', '')")
    await attach(store, text=("title", "body"), into=None)
    await catch_up(store)

    assert await records(store) == {"1": "---\nloom", "2": "loom", "3": "?!"}


COLUMNS = {
    "one collation": ("text COLLATE any_case", "text COLLATE any_case"),
    "two collations": ("text COLLATE any_case", "text COLLATE german"),
    "citext": ("citext", "text COLLATE any_accent"),
}


@pytest.mark.parametrize("kinds", COLUMNS.values(), ids=list(COLUMNS))
async def test_vectors_are_adopted(store: PostgresStore, db: asyncpg.Connection, kinds: tuple[str, str]) -> None:
    """Vectors in the column are those of the rows' texts, whatever collations those have; blanks are no text."""
    title, body = kinds
    await db.execute(f"CREATE TABLE docs (id int PRIMARY KEY, title {title}, body {body}, e vector({DIMENSIONS}))")
    await db.execute(f"INSERT INTO docs VALUES (1, 'Loom', 'wood', '{OWN}'), (2, 'loom', 'wood', NULL)")  # noqa: S608 ours
    await db.execute(f"INSERT INTO docs VALUES (3, chr(8195), '', '{OWN}')")  # noqa: S608 ours
    await attach(store, text=("title", "body"), adopt=True)

    assert await pay(store) == {"loom\nwood"}

    assert ((await one(store)).adopted, (await one(store)).problem) == (1, None)
    assert await db.fetchval("SELECT e::text FROM docs WHERE id = 1") == OWN
