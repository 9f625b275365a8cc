"""Delete records: softly, permanently, or with their whole collection."""

import secrets
from collections.abc import Sequence

from embedq.conditions import Selection
from embedq.model import Page, Reason, RecordId
from embedq.policy.jobs import can_cancel
from embedq.stores.columns import read_status
from embedq.stores.sqlite.collections import find
from embedq.stores.sqlite.filtering import condition
from embedq.stores.sqlite.keys import PURGED
from embedq.stores.sqlite.rescuing import cancel
from embedq.stores.sqlite.transaction import Transaction, ids, names
from embedq.stores.sqlite.word_tables import WordTables

LOOK_UP = """
SELECT x.id, x.rid, x.text, x.hash, x.valid_to IS NULL, j.id, j.status
FROM json_each(?1) e CROSS JOIN embedq_record x ON x.collection = ?2 AND x.id = e.value
LEFT JOIN embedq_job j ON j.record = x.rid AND j.space = ?3 WHERE ?4 IS NULL OR x.tenant = ?4
"""

# The next records that a filter allows; for a purge also those that were deleted before and are not erased.
ALLOWED = f"""
SELECT x.id FROM embedq_record x WHERE x.collection = ?1 AND x.id > ?2
  AND (x.valid_to IS NULL OR (?3 AND x.hash <> x'{PURGED.hex()}')) AND (?4 IS NULL OR x.tenant = ?4)
  AND {{condition}} ORDER BY x.id LIMIT {{limit}}
"""
DELETE = "UPDATE embedq_record SET valid_to = ? WHERE rid IN (SELECT value FROM json_each(?)) AND valid_to IS NULL"

# The vector is removed; its row stays for a while as a tombstone for the indexes that follow.
TOMBSTONE = """
INSERT OR REPLACE INTO embedq_vector (record, space, hash, embedding)
SELECT record, space, x'', NULL FROM embedq_vector
WHERE record IN (SELECT value FROM json_each(?)) AND embedding IS NOT NULL
"""
NOT_MISSING = "DELETE FROM embedq_missing WHERE collection = ? AND record IN (SELECT value FROM json_each(?))"
ERASE = """
UPDATE embedq_record SET text = '', hash = x'', attributes = '{}', tenant = NULL, given_up_hash = NULL, updated_at = ?,
  erased = ? WHERE rid IN (SELECT value FROM json_each(?))
"""

# Vectors of an erased text that were kept for reuse.
ERASE_SPARE = """
DELETE FROM embedq_spare WHERE (space, hash) IN (
  SELECT s.id, x.hash FROM json_each(?) e CROSS JOIN embedq_record x ON x.rid = e.value CROSS JOIN embedq_space s)
"""

DROP = "UPDATE embedq_collection SET name = NULL, recompose = NULL WHERE id = ?"
DROPPED = "SELECT id FROM embedq_collection WHERE name IS NULL LIMIT 1"
SOME_RECORDS = "SELECT rid, text, valid_to IS NULL FROM embedq_record WHERE collection = ? LIMIT ?"
REMOVE_JOBS = "DELETE FROM embedq_job WHERE id IN (SELECT value FROM json_each(?))"
REMOVE_RECORDS = "DELETE FROM embedq_record WHERE rid IN (SELECT value FROM json_each(?))"
JOBS_OF = "SELECT id, collection, status FROM embedq_job WHERE record IN (SELECT value FROM json_each(?))"


def delete(
    tx: Transaction, name: str, records: Sequence[RecordId], now: int, *, purge: bool, tenant: str | None
) -> list[RecordId]:
    """Remove records from search and cancel their jobs; an existing dead letter stays."""
    collection = find(tx.db, name)
    rows = tx.db.execute(LOOK_UP, (names(records), collection.id, collection.space, tenant)).fetchall()
    there = [row for row in rows if row[4] or (purge and row[3] != PURGED)]
    live = [row for row in there if row[4]]
    rids = [row[1] for row in there]
    for _, rid, text, *_ in live:
        tx.remember_words(collection.id, rid, text)
    _retire(tx, collection.id, [row[1] for row in live], now)
    opened = [(job, collection.id) for *_, job, status in there if job is not None and can_cancel(read_status(status))]
    if opened:
        cancel(tx, opened, Reason.RECORD_DELETED, now)
    if purge and rids:
        tx.db.execute(ERASE_SPARE, (ids(rids),))
        tx.db.execute(ERASE, (now, secrets.randbits(62), ids(rids)))  # a mark that no lease has read
    return [RecordId(row[0]) for row in there]


def delete_where(tx: Transaction, name: str, which: Selection, now: int, *, purge: bool) -> Page[RecordId]:
    """Delete the next records that a filter allows."""
    collection = find(tx.db, name)
    written, values = condition(which.filter)
    statement = ALLOWED.format(condition=written, limit=which.limit)
    rows = tx.db.execute(statement, (collection.id, which.after, purge, which.tenant, *values)).fetchall()
    found = [RecordId(id_) for (id_,) in rows]
    gone = delete(tx, name, found, now, purge=purge, tenant=which.tenant) if found else []
    return Page(gone, found[-1] if len(found) == which.limit else None)


def _retire(tx: Transaction, collection: int, live: Sequence[int], now: int) -> None:
    if not live:
        return
    listed = ids(live)
    tx.db.execute(DELETE, (now, listed))
    tx.db.execute(TOMBSTONE, (listed,))
    missing = tx.db.execute(NOT_MISSING, (collection, listed)).rowcount
    tx.tally(collection, records=-len(live), missing=-missing)


def drop(tx: Transaction, name: str) -> None:
    """Free a collection's name and remove its words; `remove_dropped` removes the rest step by step."""
    collection = find(tx.db, name).id
    words = WordTables.of(tx.db, collection)
    if words is not None:
        words.drop(tx.db)
    tx.db.execute(DROP, (collection,))


def remove_dropped(tx: Transaction, limit: int, now: int) -> int:
    """Remove some records of a dropped collection with their jobs and vectors; 0 when none is left."""
    row = tx.db.execute(DROPPED).fetchone()
    if row is None:
        return 0
    collection = int(row[0])
    rows = tx.db.execute(SOME_RECORDS, (collection, limit)).fetchall()
    if not rows:
        tx.db.execute("DELETE FROM embedq_collection WHERE id = ?", (collection,))
        tx.db.execute("DELETE FROM embedq_tally WHERE collection = ?", (collection,))
        return 1
    _retire(tx, collection, [rid for rid, text, live in rows if live and text], now)  # a queue-only file has no texts
    records = ids([rid for rid, _, _ in rows])
    jobs = tx.db.execute(JOBS_OF, (records,)).fetchall()
    cancel(tx, [(job, of) for job, of, status in jobs if can_cancel(read_status(status))], Reason.RECORD_DELETED, now)
    tx.db.execute(REMOVE_JOBS, (ids([job for job, *_ in jobs]),))
    tx.db.execute(REMOVE_RECORDS, (records,))
    return len(rows)
