"""Edits that a collation or a session's settings hide are noted, also by tables that an older version attached."""

import asyncpg
import pytest
from tests.stores.postgres.tables import attach, attach_docs, catch_up, gather, in_step, mend

from embedq.stores.postgres import PostgresStore

HIDING = {
    "floats": ("double precision", "0.1", "0.1 + 2e-16", "SET extra_float_digits = -10"),
    "arrays of floats": ("real[]", "'{0.1}'", "'{0.10000001}'", "SET extra_float_digits = -3"),
    "bytes": ("bytea", "'\\x41'", "'\\x5c313031'", "SET bytea_output = escape"),
}


async def test_texts_are_compared_by_their_bytes(store: PostgresStore, db: asyncpg.Connection) -> None:
    """No collation has a say in whether a key, a text, an attribute or a tenant has changed."""
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, body text, kind text, shop text, e vector(8))")
    await attach(store, attributes=("kind",), tenant="shop")

    source = await db.fetchval("SELECT prosrc FROM pg_proc WHERE proname = 'note_1'")

    compared = [line for line in source.splitlines() if "FROM embedq_new r UNION ALL" in line]
    assert [line.count('COLLATE pg_catalog."C"') for line in compared] == [2 * 5]


@pytest.mark.parametrize("place", ["text", "attributes"])
@pytest.mark.parametrize(("kind", "before", "after", "setting"), HIDING.values(), ids=list(HIDING))
async def test_an_edit_that_the_session_hides(
    store: PostgresStore, db: asyncpg.Connection, place: str, kind: str, before: str, after: str, setting: str
) -> None:
    """What a session shows alike is not alike."""
    await db.execute(f"CREATE TABLE docs (id int PRIMARY KEY, body {kind}, title text)")
    await db.execute(f"INSERT INTO docs VALUES (1, {before}, 'title')")  # noqa: S608 ours
    more = {"text": ("body",)} if place == "text" else {"text": ("title",), "attributes": ("body",)}
    await attach(store, into=None, **more)
    await catch_up(store)
    [was] = (await store.records("docs")).items

    await db.execute(f"{setting}; UPDATE docs SET body = {after}")  # noqa: S608 ours
    await catch_up(store)

    [now] = (await store.records("docs")).items
    assert (now.text, now.attributes) != (was.text, was.attributes)


# What version 0.2 wrote for this table.
OLD_NOTE = """
CREATE OR REPLACE FUNCTION embedq.note_1() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '100ms' AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO embedq.noted (attachment, keys) SELECT 1, array_agg(r.id::text) FROM embedq_new r HAVING count(*) > 0;
  ELSIF TG_OP = 'DELETE' THEN
    INSERT INTO embedq.noted (attachment, keys) SELECT 1, array_agg(r.id::text) FROM embedq_old r HAVING count(*) > 0;
  ELSIF TG_OP = 'UPDATE' THEN
    INSERT INTO embedq.noted (attachment, keys) SELECT 1, array_agg(DISTINCT c.key) FROM (
      (SELECT r.id::text, r.body::text FROM embedq_new r EXCEPT ALL SELECT r.id::text, r.body::text FROM embedq_old r)
      UNION ALL
      (SELECT r.id::text, r.body::text FROM embedq_old r EXCEPT ALL SELECT r.id::text, r.body::text FROM embedq_new r)
    ) c (key, c0) HAVING count(*) > 0;
  ELSE
    INSERT INTO embedq.noted (attachment) VALUES (1);
  END IF;
  RETURN NULL;
END $$;
DROP TRIGGER embedq_1_row ON docs;
CREATE OR REPLACE TRIGGER embedq_1_update AFTER UPDATE ON docs
  REFERENCING OLD TABLE AS embedq_old NEW TABLE AS embedq_new FOR EACH STATEMENT
  WHEN (current_setting('embedq.copying', true) IS DISTINCT FROM '1' OR pg_trigger_depth() > 0)
  EXECUTE FUNCTION embedq.note_1();
UPDATE embedq.attachment SET written = NULL
"""


async def test_what_an_older_version_wrote_is_written_anew(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Its functions and triggers stood still while embedq was upgraded: the next look brings them up to date."""
    await attach_docs(store, db, rows=3)
    await db.execute(OLD_NOTE)
    await db.execute("UPDATE embedq.attachment a SET shape = embedq.shape(a)")  # nothing else is another
    await db.execute("UPDATE docs SET e = NULL WHERE id = 1")
    assert await gather(store) == 0

    await mend(store)
    assert await catch_up(store) == 0
    assert await in_step(store, db) == 3

    await db.execute("UPDATE docs SET e = NULL WHERE id = 2")
    await db.execute("SET embedq.copying = '1'; UPDATE docs SET body = 'hidden' WHERE id = 1; RESET embedq.copying")
    await db.execute("SET session_replication_role = replica; UPDATE docs SET body = 'replicated' WHERE id = 3")
    assert await catch_up(store) == 2
    assert await in_step(store, db) == 3
