"""A queue whose records are in another database: it stores their names, and what the corpus last reported of them."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from embedq.errors import StoreUnusable
from embedq.exchange import Arm, Cause, JobState, Queued, Waiting
from embedq.model import Collection, ContentHash, JobFilter, JobId, JobStatus, Reason, RecordId, Space
from embedq.policy import jobs as rules
from embedq.stores.columns import OPEN, read_status, write_retry
from embedq.stores.sqlite import keeping, reading
from embedq.stores.sqlite.arming import Arms, arm, raise_priority
from embedq.stores.sqlite.collections import NUMBER_OF, Found, find
from embedq.stores.sqlite.deleting import DROP
from embedq.stores.sqlite.moments import clock
from embedq.stores.sqlite.rescuing import cancel as cancel_jobs
from embedq.stores.sqlite.transaction import Transaction, ids, names

# A queue-only file is marked; one that has records with texts is a corpus.
MARKED = "SELECT count(*) FROM embedq_control WHERE name = 'queue_alone'"
MARK = "INSERT INTO embedq_control VALUES ('queue_alone', 1)"
CORPUS = "SELECT value FROM embedq_control WHERE name = 'corpus'"
NOTE_CORPUS = "INSERT INTO embedq_control VALUES ('corpus', ?)"
HAS_TEXTS = "SELECT EXISTS (SELECT 1 FROM embedq_record)"

# A queue can be wiped and recreated: its numbers start at the clock, so that none is used twice.
BEGIN_NUMBERS = "INSERT INTO sqlite_sequence (name, seq) VALUES ('embedq_job', ?1), ('embedq_lease', ?1)"
NUMBERS_PER_MILLISECOND = 1000

SPACE = """
INSERT INTO embedq_space (provider, model, asked, version, dimensions) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (provider, model, asked, version) DO UPDATE SET dimensions = coalesce(dimensions, excluded.dimensions)
"""
THERE = "SELECT id, space, priority, retry FROM embedq_collection WHERE name = ?"
CREATE = "INSERT INTO embedq_collection (name, space, priority, retry, created_at) VALUES (?, ?, ?, ?, ?) RETURNING id"
CHANGE = "UPDATE embedq_collection SET priority = ?, retry = ? WHERE id = ?"

# Records as the corpus reports them; the hashes come as one blob, sliced by position.
MIRROR = """
INSERT INTO embedq_record (collection, id, hash, text, attributes, tenant, created_at, updated_at)
SELECT ?1, e.value ->> 0, substr(?2, 1 + e.key * 32, 32), '', '{}', e.value ->> 1, ?3, ?3
FROM json_each(?4) e WHERE true
ON CONFLICT (collection, id) DO UPDATE SET hash = excluded.hash, tenant = excluded.tenant, valid_to = NULL
"""
MIRROR_ONE = """
UPDATE embedq_record SET hash = ?1 WHERE rid = (SELECT record FROM embedq_job WHERE id = ?2)
AND (?3 IS NULL OR tenant = ?3)
"""
GONE = "UPDATE embedq_record SET valid_to = ? WHERE rid IN (SELECT value FROM json_each(?)) AND valid_to IS NULL"
JOBS = """
SELECT x.id, x.rid, j.id, j.status, j.reason, j.hash, j.priority
FROM json_each(?1) e CROSS JOIN embedq_record x ON x.collection = ?2 AND x.id = e.value
LEFT JOIN embedq_job j ON j.record = x.rid AND j.space = ?3
"""
NAMES = """
SELECT c.name, x.id FROM json_each(?) e CROSS JOIN embedq_record x ON x.rid = e.value
JOIN embedq_collection c ON c.id = x.collection WHERE c.name IS NOT NULL
"""

# Deleted records without a job are not needed: the next enqueue creates them again.
RECORDS_OF = "SELECT DISTINCT record FROM embedq_job WHERE id IN (SELECT value FROM json_each(?))"
FORGET = """
DELETE FROM embedq_record WHERE rid IN (SELECT value FROM json_each(?)) AND valid_to IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM embedq_job j WHERE j.record = rid)
"""


class _There(NamedTuple):
    """A record as the queue has it, and its job."""

    id: str
    rid: int
    job: int | None
    status: int | None
    reason: str | None
    hash: bytes | None
    priority: int | None

    def arms(self, ask: Arm) -> bool:
        """Ask the rules whether its job is armed."""
        reason = None if self.reason is None else Reason(self.reason)
        return rules.arms(ask, read_status(self.status), reason=reason, same_text=self.hash == ask.hash)


UNKNOWN = _There("", 0, None, None, None, None, None)  # a record that the queue does not have


def claim(tx: Transaction, path: object) -> None:
    """Mark a new file as a queue; refuse one that holds a corpus."""
    if not _is_claimed(tx.db, path):
        tx.db.execute(MARK)
        tx.db.execute(BEGIN_NUMBERS, (clock() * NUMBERS_PER_MILLISECOND,))


def refuse_unclaimed(db: sqlite3.Connection, path: object) -> None:
    """Refuse a file that is no queue yet: a caller that only reads must not make it one."""
    if not _is_claimed(db, path):
        raise StoreUnusable(f"{path} is no queue yet: run `embedq init` with these settings")


def _is_claimed(db: sqlite3.Connection, path: object) -> bool:
    if db.execute(MARKED).fetchone()[0]:
        return True
    if db.execute(HAS_TEXTS).fetchone()[0]:
        raise StoreUnusable(f"{path} holds records, so it is no queue alone: name another file in EMBEDQ_QUEUE_URL")
    return False


def noted_corpus(db: sqlite3.Connection) -> str | None:
    """Read which corpus this queue belongs to."""
    row = db.execute(CORPUS).fetchone()
    return None if row is None else str(row[0])


def note_corpus(tx: Transaction, corpus: str) -> str:
    """Note which corpus this queue belongs to, unless another process was faster; return which it is."""
    noted = noted_corpus(tx.db)
    if noted is None:
        tx.db.execute(NOTE_CORPUS, (corpus,))
    return noted or corpus


def refuse_queue(db: sqlite3.Connection, path: object) -> None:
    """Refuse to read records from a queue-only file."""
    if db.execute(MARKED).fetchone()[0]:
        raise StoreUnusable(
            f"{path} is the queue of a corpus elsewhere: name it in EMBEDQ_QUEUE_URL, and the corpus here"
        )


def declare(tx: Transaction, collection: Collection, now: int) -> None:
    """Store a collection. If its space changed, it is another collection: the old one's jobs are removed."""
    wanted = collection.declaration
    space = _ensure_space(tx.db, collection.space)
    settled = (int(wanted.priority), write_retry(wanted.retry))
    row = tx.db.execute(THERE, (wanted.name,)).fetchone()
    if row is not None and row[1] != space:
        tx.db.execute(DROP, (row[0],))
        row = None
    if row is None:
        (id_,) = tx.db.execute(CREATE, (wanted.name, space, *settled, now)).fetchone()
        tx.db.execute("INSERT INTO embedq_tally (collection) VALUES (?)", (id_,))
    elif tuple(row[2:]) != settled:
        tx.db.execute(CHANGE, (*settled, row[0]))


def forget(tx: Transaction, name: str) -> None:
    """Free a collection's name, if it exists."""
    row = tx.db.execute(THERE, (name,)).fetchone()
    if row is not None:
        tx.db.execute(DROP, (row[0],))


def enqueue(tx: Transaction, name: str, arms: Sequence[Arm], now: int) -> list[Queued]:
    """Store what the corpus reports of these records, and arm the jobs that the rules say."""
    collection = find(tx.db, name)
    there = _look_up(tx.db, collection, [ask.id for ask in arms])
    wanted = [ask for ask in arms if there.get(ask.id, UNKNOWN).arms(ask)]
    _mirror(tx, collection, [ask for ask in arms if ask in wanted or ask.id in there], now)
    there = _look_up(tx.db, collection, [ask.id for ask in arms])
    armed = _arm(tx, collection, [(ask, there[ask.id]) for ask in wanted], now)
    for ask in arms:
        _raise(tx, collection, ask, there.get(ask.id, UNKNOWN), armed)
    return [_queued(there.get(ask.id, UNKNOWN), armed) for ask in arms]


def _raise(tx: Transaction, collection: Found, ask: Arm, row: _There, armed: dict[int, int]) -> None:
    """Raise an open job's priority to the highest that was requested explicitly."""
    if ask.cause is Cause.RECONCILE or row.rid in armed:
        return
    lane = collection.priority if ask.priority is None else ask.priority
    if row.status == OPEN and row.job is not None and lane > (row.priority or 0):
        raise_priority(tx, [row.job], lane)


def withdraw(tx: Transaction, name: str, records: Sequence[RecordId], now: int) -> None:
    """Cancel the open jobs of records that were deleted."""
    row = tx.db.execute(THERE, (name,)).fetchone()
    if row is None:
        return
    collection = find(tx.db, name)
    there = _look_up(tx.db, collection, records).values()
    opened = [(found.job, collection.id) for found in there if found.status == OPEN and found.job is not None]
    if opened:
        cancel_jobs(tx, opened, Reason.RECORD_DELETED, now)
    tx.db.execute(GONE, (now, ids([found.rid for found in there])))


def states(db: sqlite3.Connection, name: str, records: Sequence[RecordId]) -> dict[RecordId, JobState]:
    """Return the states of these records' jobs."""
    if db.execute(THERE, (name,)).fetchone() is None:
        return {}
    there = _look_up(db, find(db, name), records).values()
    return {RecordId(row.id): state for row in there if (state := _state(row)) is not None}


def cancel(tx: Transaction, job: JobId, current: ContentHash | None, tenant: str | None, now: int) -> None:
    """Cancel an open job for its record's current text."""
    if current is not None:
        tx.db.execute(MIRROR_ONE, (current, int(job), tenant))
    keeping.cancel(tx, job, tenant, now)


def revive(tx: Transaction, which: JobFilter, job: JobId | None, limit: int, now: int) -> list[tuple[str, RecordId]]:
    """Arm dead letters again, or one failed or cancelled job; return their records."""
    return _armed(tx, keeping.dead_letters(tx.db, which, job, limit), now)


def replay_quota(tx: Transaction, before: int, limit: int, now: int) -> list[tuple[str, RecordId]]:
    """Retry what a provider's quota stopped before a moment; return the records."""
    return _armed(tx, keeping.quota_letters(tx.db, before, limit), now)


def waiting(db: sqlite3.Connection, name: str, now: int) -> Waiting:
    """Return how many jobs are open, and how long the oldest has waited."""
    if db.execute(THERE, (name,)).fetchone() is None:
        return Waiting(0, None)
    found = reading.freshness(db, name, now)
    return Waiting(found.pending, found.oldest_pending)


def purge(tx: Transaction, jobs: Sequence[int], before: int, limit: int) -> int:
    """Delete finished jobs past retention, with those of their records that were deleted."""
    rids = [rid for (rid,) in tx.db.execute(RECORDS_OF, (ids(jobs),))]
    removed = keeping.purge(tx, jobs, before, limit)
    tx.db.execute(FORGET, (ids(rids),))
    return removed


def _ensure_space(db: sqlite3.Connection, space: Space) -> int:
    embedder = space.embedder
    asked = embedder.dimensions or 0
    db.execute(SPACE, (embedder.provider, embedder.model, asked, space.version, space.dimensions))
    (number,) = db.execute(f"SELECT {NUMBER_OF.format('?')}", (space.id,)).fetchone()
    return int(number)


def _mirror(tx: Transaction, collection: Found, arms: Sequence[Arm], now: int) -> None:
    listed = json.dumps([(ask.id, ask.tenant) for ask in arms], ensure_ascii=False)
    tx.db.execute(MIRROR, (collection.id, b"".join(ask.hash for ask in arms), now, listed))


def _look_up(db: sqlite3.Connection, collection: Found, records: Sequence[RecordId]) -> dict[RecordId, _There]:
    rows = db.execute(JOBS, (names(records), collection.id, collection.space))
    return {RecordId(row[0]): _There(*row) for row in rows}


def _arm(tx: Transaction, collection: Found, wanted: Sequence[tuple[Arm, _There]], now: int) -> dict[int, int]:
    """Arm jobs lane by lane; return them, by record."""
    lanes: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for ask, row in wanted:
        lane = collection.priority if ask.priority is None else ask.priority
        lanes[lane, ask.forced].append(row.rid)
    jobs: dict[int, int] = {}
    for (priority, forced), rids in lanes.items():
        how = Arms(collection=collection.id, space=collection.space, priority=priority, forced=forced)
        jobs |= arm(tx, rids, how, now)
    return jobs


def _armed(tx: Transaction, rows: Sequence[keeping.Letter], now: int) -> list[tuple[str, RecordId]]:
    keeping.arm_all(tx, rows, now)
    found = tx.db.execute(NAMES, (ids([row[1] for row in rows]),))
    return [(name, RecordId(id_)) for name, id_ in found]


def _queued(row: _There, armed: dict[int, int]) -> Queued:
    job = armed.get(row.rid, row.job)
    return Queued(None if job is None else JobId(str(job)), row.rid in armed)


def _state(row: _There) -> JobState | None:
    status = read_status(row.status)
    if row.job is None or status is None:
        return None
    reason = None if row.reason is None else Reason(row.reason)
    return JobState(JobId(str(row.job)), JobStatus(status), reason, ContentHash(row.hash or b""))
