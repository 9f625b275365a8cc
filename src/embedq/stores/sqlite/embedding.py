"""What a queue in another database needs of records: it reads texts and stores vectors."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from embedq.exchange import Loss, Sizes, Standing, Text
from embedq.model import ContentHash, Done, Lease, Outcome, RecordId, SpaceId
from embedq.policy.jobs import RecordAnswer
from embedq.stores.columns import number
from embedq.stores.sqlite import listing
from embedq.stores.sqlite.arming import NOTE_FOUND, TRY_AGAIN
from embedq.stores.sqlite.collections import SPACE_NAME, find
from embedq.stores.sqlite.keys import MARK
from embedq.stores.sqlite.settle_one import SPARE, STORE
from embedq.stores.sqlite.transaction import Transaction, ids, names

# A collection, if it is embedded in exactly this space.
HOME = f"""
SELECT c.id, c.space FROM embedq_collection c JOIN embedq_space s ON s.id = c.space
WHERE c.name = ? AND {SPACE_NAME} = ?
"""
TEXTS = f"""
SELECT x.id, x.text, x.hash, v.embedding IS NOT NULL AND v.hash = x.hash, {MARK}
FROM json_each(?1) e CROSS JOIN embedq_record x ON x.collection = ?2 AND x.id = e.value
LEFT JOIN embedq_vector v ON v.record = x.rid AND v.space = ?3 WHERE x.valid_to IS NULL
"""
RECORD = f"""
SELECT x.rid, x.hash, x.valid_to IS NULL, v.embedding IS NOT NULL AND v.hash = x.hash, {MARK}
FROM embedq_record x LEFT JOIN embedq_vector v ON v.record = x.rid AND v.space = ?3
WHERE x.collection = ?1 AND x.id = ?2
"""

# The state of records, some by id, or those without a current vector in the order they were first put.
STANDING = """
SELECT x.id, x.hash, x.tenant, v.embedding IS NOT NULL AND v.hash = x.hash, x.given_up_hash IS x.hash, x.rid
"""
SOME = f"""
{STANDING} FROM json_each(?1) e CROSS JOIN embedq_record x ON x.collection = ?2 AND x.id = e.value
LEFT JOIN embedq_vector v ON v.record = x.rid AND v.space = ?3 WHERE x.valid_to IS NULL
"""
MISSING = f"""
{STANDING} FROM embedq_missing m CROSS JOIN embedq_record x ON x.rid = m.record
LEFT JOIN embedq_vector v ON v.record = x.rid AND v.space = ?1
WHERE m.collection = ?2 AND m.record > ?3 ORDER BY m.record LIMIT ?4
"""
GIVE_UP = """
UPDATE embedq_record SET given_up_hash = hash, given_up_reason = ?
WHERE collection = ? AND id = ? AND hash = ? AND valid_to IS NULL
"""
RIDS = "SELECT x.rid FROM json_each(?1) e CROSS JOIN embedq_record x ON x.collection = ?2 AND x.id = e.value"


class _Row(NamedTuple):
    """A record with its vector."""

    rid: int
    hash: bytes
    live: int
    current: int | None
    erasure: int


@dataclass(frozen=True, slots=True)
class _Home:
    """A collection and its space."""

    collection: int
    space: int


def texts(
    db: sqlite3.Connection, space: SpaceId, wanted: Mapping[str, Sequence[RecordId]]
) -> dict[str, dict[RecordId, Text]]:
    """Read texts with their hashes, by collection."""
    found: dict[str, dict[RecordId, Text]] = {}
    for name, records in wanted.items():
        home = _home(db, name, space)
        rows = () if home is None else db.execute(TEXTS, (names(records), home.collection, home.space))
        found[name] = {
            RecordId(id_): Text(text, ContentHash(hash_), bool(current), erasure)
            for id_, text, hash_, current, erasure in rows
        }
    return found


def store(tx: Transaction, outcomes: Sequence[Outcome], now: int) -> list[RecordAnswer]:
    """Store the vectors that fit, and say for each record whether it has the text that was leased."""
    return [
        _store(tx, outcome, _home(tx.db, outcome.lease.collection, outcome.lease.space), now) for outcome in outcomes
    ]


def standing(db: sqlite3.Connection, name: str, records: Sequence[RecordId]) -> list[Standing]:
    """Return the state of live records."""
    collection = find(db, name)
    return [_standing(row) for row in db.execute(SOME, (names(records), collection.id, collection.space))]


def missing(db: sqlite3.Connection, name: str, after: str | None, limit: int) -> list[Standing]:
    """List live records without a current vector."""
    collection = find(db, name)
    rows = db.execute(MISSING, (collection.space, collection.id, number(after), limit))
    return [_standing(row) for row in rows]


def give_up(tx: Transaction, name: str, losses: Sequence[Loss]) -> None:
    """Note which texts were given up on."""
    collection = find(tx.db, name)
    tx.db.executemany(GIVE_UP, [(loss.reason, collection.id, loss.id, loss.hash) for loss in losses])


def try_again(tx: Transaction, name: str, records: Sequence[RecordId]) -> None:
    """Clear the note that texts were given up on."""
    rids = [rid for (rid,) in tx.db.execute(RIDS, (names(records), find(tx.db, name).id))]
    tx.db.execute(TRY_AGAIN, (ids(rids),))


def sizes(db: sqlite3.Connection) -> dict[str, Sizes]:
    """Count records per collection."""
    counted = listing.counts(db)
    return {name: Sizes(found.records, found.missing, found.truncated) for name, found in counted.items()}


def _home(db: sqlite3.Connection, name: str, space: SpaceId) -> _Home | None:
    row = db.execute(HOME, (name, space)).fetchone()
    return None if row is None else _Home(*row)


def _store(tx: Transaction, outcome: Outcome, home: _Home | None, now: int) -> RecordAnswer:
    if home is None:
        return RecordAnswer.GONE
    lease = outcome.lease
    found = tx.db.execute(RECORD, (home.collection, lease.record_id, home.space)).fetchone()
    row = None if found is None else _Row(*found)
    answer = _answer(row, lease)
    if row is None or not isinstance(outcome, Done):
        return answer
    if outcome.vector is None:
        return RecordAnswer.CHANGED if answer is RecordAnswer.FITS and not row.current else answer
    blob = np.ascontiguousarray(outcome.vector, dtype="<f4").tobytes()
    if answer is RecordAnswer.FITS:
        tx.db.execute(STORE, (home.space, outcome.truncated, blob, row.rid, lease.hash))
        listed = ids([row.rid])
        tx.tally(home.collection, missing=-tx.db.execute(NOTE_FOUND, (listed, home.space)).rowcount)
        tx.db.execute(TRY_AGAIN, (listed,))
    elif row.erasure == lease.erasure:
        tx.db.execute(SPARE, (lease.hash, now, blob, lease.space))
    return answer


def _answer(row: _Row | None, lease: Lease) -> RecordAnswer:
    if row is None or not row.live:
        return RecordAnswer.GONE
    return RecordAnswer.FITS if row.hash == lease.hash else RecordAnswer.CHANGED


def _standing(row: tuple[str, bytes, str | None, int | None, int, int]) -> Standing:
    id_, hash_, tenant, current, given_up, rid = row
    return Standing(RecordId(id_), ContentHash(hash_), tenant, bool(current), bool(given_up), str(rid))
