"""Read records, and vectors that were already paid for."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from embedq.model import (
    ContentHash,
    EmbeddingStatus,
    Freshness,
    JobId,
    Page,
    Reason,
    Record,
    RecordId,
    Shown,
    SpaceId,
    Vector,
)
from embedq.policy.texts import check_answer
from embedq.stores.columns import Listed, number
from embedq.stores.sqlite.collections import NUMBER_OF, Found, find
from embedq.stores.sqlite.filtering import condition
from embedq.stores.sqlite.keys import LANE
from embedq.stores.sqlite.moments import when
from embedq.stores.sqlite.transaction import names

COLUMNS = """
x.rid, x.id, x.text, x.attributes, x.tenant, x.hash, x.created_at, x.updated_at,
CASE WHEN x.given_up_hash = x.hash THEN x.given_up_reason END,
v.embedding IS NOT NULL AND v.hash = x.hash, v.truncated, j.id
"""
JOINED = """
LEFT JOIN embedq_vector v ON v.record = x.rid AND v.space = ?1
LEFT JOIN embedq_job j ON j.record = x.rid AND j.space = ?1
"""

# Some records by id.
GET = f"""
SELECT {COLUMNS}, CASE WHEN ?4 THEN v.embedding END FROM json_each(?3) e
CROSS JOIN embedq_record x ON x.collection = ?2 AND x.id = e.value {JOINED} WHERE x.valid_to IS NULL
"""

# What an answer shows of some records.
SHOW = """
SELECT x.rid, x.id, x.text, x.attributes, v.embedding IS NOT NULL AND v.hash = x.hash FROM json_each(?3) e
CROSS JOIN embedq_record x ON x.collection = ?2 AND x.id = e.value
LEFT JOIN embedq_vector v ON v.record = x.rid AND v.space = ?1 WHERE x.valid_to IS NULL
"""

WANTED = "true /* or what a filter asks */"
OF_TENANT = f"(?5 IS NULL OR x.tenant = ?5) AND {WANTED}"

# Records in the order of their ids.
LIST = f"""
SELECT {COLUMNS}, NULL FROM embedq_record x {JOINED}
WHERE x.collection = ?2 AND x.id > ?3 AND x.valid_to IS NULL AND {OF_TENANT} ORDER BY x.id LIMIT ?4
"""
LIST_EMBEDDED = LIST.replace("ORDER BY", "AND v.embedding IS NOT NULL AND v.hash = x.hash ORDER BY")

# Records without a current vector, in the order they were first put.
LIST_PENDING = f"""
SELECT {COLUMNS}, NULL FROM embedq_missing m CROSS JOIN embedq_record x ON x.rid = m.record {JOINED}
WHERE m.collection = ?2 AND m.record > ?3 AND x.given_up_hash IS NOT x.hash AND {OF_TENANT} ORDER BY m.record LIMIT ?4
"""
LIST_FAILED = f"""
SELECT {COLUMNS}, NULL FROM embedq_record x INDEXED BY embedq_record_given_up {JOINED}
WHERE x.collection = ?2 AND x.rid > ?3 AND x.given_up_hash IS NOT NULL AND x.given_up_hash = x.hash
  AND x.valid_to IS NULL AND NOT (v.embedding IS NOT NULL AND v.hash = x.hash) AND {OF_TENANT} ORDER BY x.rid LIMIT ?4
"""

# Vectors by the hash of their text. The first eight bytes find them, the whole hash decides.
KNOWN = f"""
SELECT e.value, v.embedding FROM json_each(?1) e CROSS JOIN embedq_vector v
  ON substr(v.hash, 1, 8) = substr(?2, 1 + e.value * 32, 8)
WHERE v.embedding IS NOT NULL AND v.space = {NUMBER_OF.format("?3")} AND v.hash = substr(?2, 1 + e.value * 32, 32)
UNION ALL
SELECT e.value, s.embedding FROM json_each(?1) e CROSS JOIN embedq_spare s
  ON s.space = {NUMBER_OF.format("?3")} AND s.hash = substr(?2, 1 + e.value * 32, 32)
"""
TALLY = "SELECT open, records, missing FROM embedq_tally WHERE collection = ?"

# The oldest pending job of a collection: its first in each lane, or one that waits after a failure or a refusal.
OLDEST = f"""
SELECT min(queued_at) FROM (
  SELECT (SELECT r.key % {LANE} FROM embedq_ready r WHERE r.space = ?1 AND r.key >= l.value * {LANE}
            AND r.key < (l.value + 1) * {LANE} AND r.collection = ?2 ORDER BY r.key LIMIT 1) AS queued_at
  FROM json_each('[0,1,2,3,4,5,6,7]') l
  UNION ALL
  SELECT min(j.queued_at) FROM embedq_job j
  WHERE j.collection = ?2 AND j.status = 0 AND (j.attempts > 0 OR j.refused_at IS NOT NULL))
"""


def get(
    db: sqlite3.Connection, name: str, records: Sequence[RecordId], *, with_vectors: bool, max_bytes: int | None
) -> list[Record]:
    """Read live records, in the order requested."""
    collection = find(db, name)
    found, size = list[Record](), 0
    for row in db.execute(GET, (collection.space, collection.id, names(records), with_vectors)):
        size += _size(row)
        found.append(_record(collection, row))
        check_answer(size, len(found), max_bytes)
    return found


def page(db: sqlite3.Connection, name: str, which: Listed) -> Page[Record]:
    """List live records."""
    status, limit, cursor = which.status, which.limit, which.cursor
    collection = find(db, name)
    by_id = status in (None, EmbeddingStatus.EMBEDDED)
    statement = {
        None: LIST,
        EmbeddingStatus.EMBEDDED: LIST_EMBEDDED,
        EmbeddingStatus.PENDING: LIST_PENDING,
        EmbeddingStatus.FAILED: LIST_FAILED,
    }[status if status is None else EmbeddingStatus(status)]
    after = (cursor or "") if by_id else number(cursor)
    found, size, following = list[Record](), 0, None
    written, values = (WANTED, []) if which.wanted is None else condition(which.wanted)
    asked = (collection.space, collection.id, after, limit, which.tenant, *values)
    for row in db.execute(statement.replace(WANTED, written), asked):
        found.append(_record(collection, row))
        size += _size(row)
        if len(found) == limit or size >= which.most:
            following = str(row[1] if by_id else row[0])
            break
    return Page(found, following)


def _size(row: tuple[Any, ...]) -> int:
    """Count the bytes of a record's text and attributes."""
    return sum(len(part) if part.isascii() else len(part.encode()) for part in row[2:4])


def known(db: sqlite3.Connection, space: SpaceId, hashes: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
    """Look up vectors that were already paid for."""
    places = json.dumps(list(range(len(hashes))))
    rows = db.execute(KNOWN, (places, b"".join(hashes), space))
    return {hashes[place]: np.frombuffer(blob, dtype="<f4") for place, blob in rows}


def show(
    db: sqlite3.Connection, name: str, records: Sequence[RecordId], max_bytes: int | None, now: int
) -> tuple[list[Shown], Freshness]:
    """Read what is shown of live records, in the order requested, and how far vectors lag behind."""
    collection = find(db, name)
    found, size = list[Shown](), 0
    for row in db.execute(SHOW, (collection.space, collection.id, names(records))):
        size += _size(row)
        found.append(Shown(RecordId(row[1]), row[2], json.loads(row[3]), bool(row[4])))
        check_answer(size, len(found), max_bytes)
    return found, _freshness(db, collection, now)


def freshness(db: sqlite3.Connection, name: str, now: int) -> Freshness:
    """Return how far vectors lag behind."""
    return _freshness(db, find(db, name), now)


def _freshness(db: sqlite3.Connection, collection: Found, now: int) -> Freshness:
    opened, records, missing = db.execute(TALLY, (collection.id,)).fetchone()
    (oldest,) = db.execute(OLDEST, (collection.space, collection.id)).fetchone()
    return Freshness(
        coverage=1.0 if not records else (records - missing) / records,
        pending=opened,
        oldest_pending=None if oldest is None else timedelta(milliseconds=max(0, now - oldest)),
    )


def _record(collection: Found, row: tuple[Any, ...]) -> Record:
    _, id_, text, attributes, tenant, hash_, created_at, updated_at, reason, current, truncated, job, embedding = row
    if current:
        status = EmbeddingStatus.EMBEDDED
    else:
        status = EmbeddingStatus.PENDING if reason is None else EmbeddingStatus.FAILED
    return Record(
        id=RecordId(id_),
        collection=collection.name,
        text=text,
        attributes=json.loads(attributes),
        tenant=tenant,
        hash=ContentHash(hash_),
        embedding_status=status,
        reason=Reason(reason) if reason and not current else None,
        truncated=bool(current and truncated),
        job_id=JobId(str(job)) if job else None,
        created_at=when(created_at),
        updated_at=when(updated_at),
        vector=None if embedding is None else np.frombuffer(embedding, dtype="<f4"),
    )
