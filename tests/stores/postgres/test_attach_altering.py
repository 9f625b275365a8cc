"""Attaching again with something else alters the attachment: only texts that change by it are paid for."""

# ruff: noqa: S608 (names of tables are put into statements here on purpose)

from typing import Any

import asyncpg
import pytest
from tests.stores.postgres.tables import attach, attach_docs, catch_up, found_again, in_step, one, records

from embedq.errors import Conflict
from embedq.model import RecordId
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS

WIDE = f"""
CREATE TABLE docs (id int PRIMARY KEY, body text, title text, kind text, shop text, e vector({DIMENSIONS}),
  f vector({DIMENSIONS}));
INSERT INTO docs SELECT n, 'text ' || n, CASE n WHEN 3 THEN 'three' END, 'k' || n, 's' || n FROM generate_series(1, 5) n
"""


async def wide(store: PostgresStore, db: asyncpg.Connection) -> None:
    await db.execute(WIDE)
    await attach(store)
    assert await catch_up(store) == 5


@pytest.mark.parametrize(
    "asked",
    [{"attributes": ("kind",)}, {"tenant": "shop"}, {"priority": "CASE WHEN id > 3 THEN 'high' END"}, {"into": None}],
)
async def test_what_changes_no_text_costs_nothing(
    store: PostgresStore, db: asyncpg.Connection, asked: dict[str, Any]
) -> None:
    """Attributes, tenant, lane and target are changed there and back, and changes are followed meanwhile."""
    await wide(store, db)

    await attach(store, **asked)
    assert await found_again(store) == 0
    found = {str(record.id): record for record in (await store.records("docs")).items}
    assert {record.attributes.get("kind") for record in found.values()} == (
        {f"k{n}" for n in range(1, 6)} if "attributes" in asked else {None}
    )
    assert found["2"].tenant == ("s2" if "tenant" in asked else None)
    await db.execute("UPDATE docs SET kind = 'other', shop = 'sold', body = 'edited' WHERE id = 1")
    assert await catch_up(store) == 1
    [first] = await store.get("docs", [RecordId("1")])
    assert first.attributes == ({"kind": "other"} if "attributes" in asked else {})
    assert first.tenant == ("sold" if "tenant" in asked else None)

    await attach(store)
    assert await found_again(store) == 0
    assert {(r.tenant, len(r.attributes)) for r in (await store.records("docs")).items} == {(None, 0)}
    assert await in_step(store, db) == 5


async def test_another_text_is_paid_for_where_it_differs(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A column that is empty in most rows changes the text of the others only."""
    await wide(store, db)

    await attach(store, text=("title", "body"))

    assert await found_again(store) == 1
    assert (await records(store))["3"] == "three\ntext 3"


async def test_a_renamed_column_is_named_anew(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The text's or the key's: records, ids and vectors stay."""
    await wide(store, db)
    await db.execute("ALTER TABLE docs RENAME body TO words; ALTER TABLE docs RENAME id TO number")
    await db.execute("UPDATE docs SET words = 'edited' WHERE number = 1")

    await attach(store, key=("number",), text=("words",))

    assert await found_again(store) == 1
    assert (await one(store)).problem is None
    assert await in_step(store, db, rows="SELECT number::text AS id, words AS text, e::text AS e FROM docs") == 5


async def test_another_target_is_filled_from_what_is_stored(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The column that was stays as it is, and is nobody's from then on."""
    await wide(store, db)

    await attach(store, into="f")

    assert await found_again(store) == 0
    assert await in_step(store, db, rows="SELECT id::text AS id, body AS text, f::text AS e FROM docs") == 5
    assert await in_step(store, db) == 5
    await db.execute("UPDATE docs SET e = NULL")
    assert await catch_up(store) == 0
    assert await db.fetchval("SELECT count(e) FROM docs") == 0


async def test_writers_under_way_are_waited_for(
    store: PostgresStore, db: asyncpg.Connection, postgres_url: str
) -> None:
    """Whoever changed a column that nobody watched, and commits later, is not missed."""
    await wide(store, db)
    writer = await asyncpg.connect(postgres_url)
    transaction = writer.transaction()
    await transaction.start()
    await writer.execute("UPDATE docs SET kind = 'late' WHERE id = 1")

    await attach(store, attributes=("kind",))
    await catch_up(store)
    await transaction.commit()
    await writer.close()
    await found_again(store)

    [first] = await store.get("docs", [RecordId("1")])
    assert first.attributes == {"kind": "late"}


async def test_another_table_is_no_alteration(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Unless the one that was is gone: then the one in its place is looked at, and equal texts are not paid for."""
    await attach_docs(store, db, rows=3)
    await db.execute("CREATE TABLE fresh (LIKE docs INCLUDING ALL); INSERT INTO fresh SELECT * FROM docs")
    with pytest.raises(Conflict, match=r"attached to public\.docs"):
        await attach(store, "fresh")

    await db.execute("DROP TABLE docs; ALTER TABLE fresh RENAME TO docs; UPDATE docs SET body = 'new' WHERE id = 1")
    await attach(store)

    assert await found_again(store) == 1
    assert (await one(store)).problem is None
    assert await in_step(store, db) == 3


async def test_a_target_of_another_collection_is_refused(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Also when an attachment is altered; then nothing is changed."""
    await wide(store, db)
    await attach(store, text=("title",), into="f", name="titles")

    with pytest.raises(Conflict, match="holds the vectors"):
        await attach(store, into="f")

    assert (await one(store)).attachment.into == "e"
