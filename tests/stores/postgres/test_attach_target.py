"""The table's own column of vectors is watched: what others write into it is put right, and nothing is paid for it."""

# ruff: noqa: S608 (vectors are put into statements here on purpose)

import asyncpg
import pytest
from tests.stores.postgres.tables import CREATE, attach, attach_docs, catch_up, gather, in_step, left, one, written

from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import DIMENSIONS

OLD = "[" + ",".join(["9"] * DIMENSIONS) + "]"


@pytest.mark.parametrize("kind", ["vector", "halfvec", "vector(8)"])
@pytest.mark.parametrize(
    "write",
    [
        "UPDATE docs SET e = NULL WHERE id = 1",
        f"UPDATE docs SET id = id, body = body, other = 7, e = '{OLD}'",
        f"UPDATE docs SET e = '{OLD}' WHERE id = 1; UPDATE docs SET e = NULL WHERE id = 2",
        "UPDATE docs d SET e = o.e FROM docs o WHERE o.id = 3 - d.id",
    ],
)
async def test_an_application_that_writes_the_column(
    store: PostgresStore, db: asyncpg.Connection, write: str, kind: str
) -> None:
    """Frameworks save every column: NULL or an earlier vector is replaced by the stored one, without an embedding."""
    await db.execute(CREATE.replace(f"vector({DIMENSIONS})", kind))
    await db.execute("INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, 3) n")
    await attach(store)
    await catch_up(store)

    await db.execute(write)

    assert await catch_up(store) == 0
    assert await in_step(store, db) == 3


async def test_text_and_an_old_vector_in_one_statement(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The row ends with the vector of its new text, and it is paid for once."""
    await attach_docs(store, db, rows=2)

    await db.execute(f"UPDATE docs SET body = 'new', e = '{OLD}' WHERE id = 1")

    assert await catch_up(store) == 1
    assert await in_step(store, db) == 2


async def test_our_own_copying_is_not_noted(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A settle leaves nothing to look at."""
    await attach_docs(store, db, rows=5)

    assert await left(db) == {"noted": 0, "unplaced": 0}
    await db.execute("UPDATE docs SET e = NULL")
    await gather(store)
    assert await left(db) == {"noted": 0, "unplaced": 0}
    assert await store.gather() == 0


@pytest.mark.parametrize("said", ["1", "true", ""])
async def test_nobody_else_passes_for_us(store: PostgresStore, db: asyncpg.Connection, said: str) -> None:
    """Whoever sets our setting is noted all the same."""
    await attach_docs(store, db, rows=1)

    await db.execute("SELECT set_config('embedq.copying', $1, false)", said)
    await db.execute("UPDATE docs SET body = 'edited'")

    assert await catch_up(store) == 1
    assert await in_step(store, db) == 1


MEDDLING = {
    "it takes the vector away": "BEFORE UPDATE ON docs FOR EACH ROW",
    "it skips the row": "BEFORE UPDATE ON docs FOR EACH ROW",
    "it writes the vector again": "AFTER UPDATE OF e ON docs FOR EACH ROW WHEN (NEW.e IS NOT NULL)",
    "it writes the text again": "AFTER UPDATE OF e ON docs FOR EACH ROW WHEN (NEW.e IS NOT NULL)",
}  # fmt: skip
ACTS = {
    "it takes the vector away": "NEW.e := NULL; RETURN NEW",
    "it skips the row": "RETURN NULL",
    "it writes the vector again": "UPDATE docs SET e = NULL WHERE id = NEW.id; RETURN NULL",
    "it writes the text again": "UPDATE docs SET body = body || '!' WHERE id = NEW.id; RETURN NULL",
}


@pytest.mark.parametrize("what", MEDDLING)
async def test_a_trigger_that_keeps_vectors_out_is_told(
    store: PostgresStore, db: asyncpg.Connection, what: str
) -> None:
    """Nothing goes round in circles, nothing is paid again, and nobody is told that all is well."""
    await db.execute(CREATE)
    await db.execute(f"""
        CREATE FUNCTION public.meddle() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {ACTS[what]}; END $$;
        CREATE TRIGGER meddle {MEDDLING[what]} EXECUTE FUNCTION public.meddle();
        INSERT INTO docs VALUES (1, 'one'), (2, 'two')""")
    await attach(store)

    assert await catch_up(store) == 2
    assert await catch_up(store) == 0

    assert "changes the text or the vector" in str((await one(store)).problem)
    assert await db.fetchval("SELECT count(*) FROM docs WHERE e IS NOT NULL") == 0
    await db.execute("DROP TRIGGER meddle ON docs")
    assert await catch_up(store) == 0
    assert await in_step(store, db) == 2
    assert await db.fetchval("SELECT e::text FROM docs WHERE id = 1") == written("one")
