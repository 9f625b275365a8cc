"""Upkeep of the file: missing vectors, old jobs, and dead letters that may be revived."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from embedq.errors import NotFound
from embedq.model import EmbeddingStatus, JobFilter, JobId, Missing, Reason, Receipt, RecordId
from embedq.policy import jobs as rules
from embedq.stores.columns import OPEN, needs_job, number, read_status, revivable
from embedq.stores.sqlite.arming import Arms, arm, note_missing, raise_priority
from embedq.stores.sqlite.collections import find
from embedq.stores.sqlite.moments import span
from embedq.stores.sqlite.narrowing import narrowing
from embedq.stores.sqlite.rescuing import cancel as cancel_jobs
from embedq.stores.sqlite.settle_one import COLUMN
from embedq.stores.sqlite.transaction import Transaction, ids, names
from embedq.stores.sqlite.workers import FORGET

# What the rules must know of a record without a current vector, to decide whether it gets a job [10].
NEED = "j.status, j.reason, j.hash IS x.hash, x.given_up_hash IS x.hash"

# Live records without a current vector, in the order they were first put.
MISSING = f"""
SELECT m.record, x.id, {NEED} FROM embedq_missing m CROSS JOIN embedq_record x ON x.rid = m.record
LEFT JOIN embedq_job j ON j.record = x.rid AND j.space = ?1
WHERE m.collection = ?2 AND m.record > ?3 ORDER BY m.record LIMIT ?4
"""

# Those of these records that are live without a current vector.
LACKING = f"""
SELECT x.rid, {NEED} FROM json_each(?1) e CROSS JOIN embedq_record x ON x.collection = ?2 AND x.id = e.value
LEFT JOIN embedq_job j ON j.record = x.rid AND j.space = ?3
LEFT JOIN embedq_vector v ON v.record = x.rid AND v.space = ?3
WHERE x.valid_to IS NULL AND NOT (v.embedding IS NOT NULL AND v.hash = x.hash)
"""
LIVE = """
SELECT x.rid, x.id, v.embedding IS NOT NULL AND v.hash = x.hash, ifnull(j.id, 0), j.status,
  ifnull(j.priority, 0)
FROM json_each(?1) e CROSS JOIN embedq_record x ON x.collection = ?2 AND x.id = e.value
LEFT JOIN embedq_vector v ON v.record = x.rid AND v.space = ?3
LEFT JOIN embedq_job j ON j.record = x.rid AND j.space = ?3
WHERE x.valid_to IS NULL AND (?4 IS NULL OR x.tenant = ?4)
"""
WALK = "SELECT rid, id FROM embedq_record WHERE collection = ? AND id > ? ORDER BY id LIMIT ?"

# Finished jobs past retention. It scans the jobs, so it runs on a reader; the second statement checks again.
OLD_JOBS = "SELECT id FROM embedq_job WHERE status IN (2, 3, 4) AND completed_at < ? ORDER BY id LIMIT ?"
STILL_OLD = """
SELECT j.id, j.collection, j.status FROM json_each(?) e CROSS JOIN embedq_job j ON j.id = e.value
WHERE j.status IN (2, 3, 4) AND j.completed_at < ?
"""
REMOVE_JOBS = "DELETE FROM embedq_job WHERE id IN (SELECT value FROM json_each(?))"
OLD_SPARE = """
DELETE FROM embedq_spare WHERE rowid IN (SELECT rowid FROM embedq_spare WHERE paid_at < ? LIMIT ?)
"""

# Tombstones of vectors, once every following index has long seen them.
OLD_TOMBSTONES = """
SELECT v.seq FROM embedq_vector v INDEXED BY embedq_vector_gone LEFT JOIN embedq_record x ON x.rid = v.record
WHERE v.embedding IS NULL AND (x.rid IS NULL OR x.valid_to < ?) ORDER BY v.seq LIMIT ?
"""
REMOVE_TOMBSTONES = "DELETE FROM embedq_vector WHERE seq IN (SELECT value FROM json_each(?))"
FORGOTTEN = "UPDATE embedq_control SET value = max(value, ?) WHERE name = 'forgotten_seq'"

TO_CANCEL = """
SELECT j.id, j.collection, j.record, j.status FROM embedq_job j JOIN embedq_record x ON x.rid = j.record
WHERE j.id = ?1 AND (?2 IS NULL OR x.tenant = ?2)
"""

# Dead letters and cancelled jobs that may be retried. Their record must be live, and still in the same space.
REVIVABLE = """
SELECT j.id, j.record, j.collection, j.space, j.priority FROM embedq_job j {index}
JOIN embedq_record x ON x.rid = j.record AND x.valid_to IS NULL
JOIN embedq_collection c ON c.id = j.collection AND c.space = j.space WHERE {conditions} LIMIT ?
"""


Letter = tuple[int, int, int, int, int]  # job, record, collection, space, priority


def missing(db: sqlite3.Connection, name: str, after: str | None, limit: int) -> list[Missing]:
    """List live records without a current vector."""
    collection = find(db, name)
    rows = db.execute(MISSING, (collection.space, collection.id, number(after), limit))
    return [Missing(key=str(rid), id=RecordId(id_), needs_job=needs_job(*facts)) for rid, id_, *facts in rows]


def reconcile(tx: Transaction, name: str, records: Sequence[RecordId], now: int) -> int:
    """Give jobs to those of these records that need one."""
    collection = find(tx.db, name)
    rows = tx.db.execute(LACKING, (names(records), collection.id, collection.space)).fetchall()
    in_need = [rid for rid, *facts in rows if needs_job(*facts)]
    if in_need:
        how = Arms(collection=collection.id, space=collection.space, priority=collection.priority)
        arm(tx, in_need, how, now)
    return len(in_need)


def recount(tx: Transaction, name: str, after: str | None, limit: int) -> tuple[int, str | None]:
    """Compare a range of records with their vectors by reading them; repair the list of missing ones."""
    collection = find(tx.db, name)
    rows = tx.db.execute(WALK, (collection.id, after or "", limit)).fetchall()
    repaired = note_missing(tx, [rid for rid, _ in rows], collection.id, collection.space)
    return repaired, rows[-1][1] if len(rows) == limit else None


class _Live(NamedTuple):
    """A live record, whether its vector is current, and its job; a record without one has 0."""

    rid: int
    id: str
    current: int | None
    job: int
    status: int | None
    priority: int

    def is_armed_by_hand(self, *, forced: bool) -> bool:
        """Whether enqueueing it by hand arms its job."""
        return rules.enqueue_arms(read_status(self.status), forced=forced, current=bool(self.current))

    def is_open_below(self, lane: int) -> bool:
        """Whether its job is open in a lower lane."""
        return self.status == OPEN and self.priority < lane


def enqueue(
    tx: Transaction,
    name: str,
    wanted: Sequence[RecordId],
    *,
    force: bool,
    priority: int | None,
    tenant: str | None,
    now: int,
) -> list[Receipt]:
    """Arm jobs by hand: forced, or where there is neither vector nor job; an open job keeps the higher priority."""
    collection = find(tx.db, name)
    found = tx.db.execute(LIVE, (names(wanted), collection.id, collection.space, tenant))
    rows = {row.id: row for row in (_Live(*columns) for columns in found)}
    absent = [record for record in wanted if record not in rows]
    if absent:
        raise NotFound(f"no record {absent[0]!r} in collection {name!r}")
    lane = collection.priority if priority is None else priority
    how = Arms(collection=collection.id, space=collection.space, priority=lane, forced=force)
    armed = [row.rid for row in rows.values() if row.is_armed_by_hand(forced=force)]
    jobs = arm(tx, armed, how, now) if armed else {}
    lower = [row.job for row in rows.values() if row.rid not in jobs and row.is_open_below(lane)]
    if lower:
        raise_priority(tx, lower, lane)
    return [_receipt(rows[record], jobs) for record in wanted]


def _receipt(row: _Live, jobs: dict[int, int]) -> Receipt:
    number_ = jobs.get(row.rid, row.job)
    status = EmbeddingStatus.EMBEDDED if row.current else EmbeddingStatus.PENDING
    return Receipt(id=RecordId(row.id), embedding_status=status, job_id=JobId(str(number_)) if number_ else None)


def cancel(tx: Transaction, job: JobId, tenant: str | None, now: int) -> None:
    """Cancel an open job by hand: its text is given up on until someone revives or changes it."""
    row = tx.db.execute(TO_CANCEL, (int(job), tenant)).fetchone()
    if row is None or not rules.can_cancel(read_status(row[3])):
        return
    cancel_jobs(tx, [(row[0], row[1])], Reason.CANCELLED, now)
    tx.db.execute(
        "UPDATE embedq_record SET given_up_hash = hash, given_up_reason = ? WHERE rid = ?", (Reason.CANCELLED, row[2])
    )


def revive(tx: Transaction, which: JobFilter, job: JobId | None, limit: int, now: int) -> int:
    """Arm dead letters again, or one failed or cancelled job."""
    return arm_all(tx, dead_letters(tx.db, which, job, limit), now)


def dead_letters(db: sqlite3.Connection, which: JobFilter, job: JobId | None, limit: int) -> list[Letter]:
    """Find dead letters that may be retried, or one failed or cancelled job."""
    if job is not None:
        conditions = [f"j.id = ?1 AND (?2 IS NULL OR x.tenant = ?2) AND {revivable(named=True)}"]
        values, index = list[object]([int(job), which.tenant]), ""
    else:
        narrowed, values = narrowing(db, which)
        conditions, index = [revivable(named=False), *narrowed], "INDEXED BY embedq_job_failed"
    statement = REVIVABLE.format(conditions=" AND ".join(conditions), index=index)
    return db.execute(statement, (*values, limit)).fetchall()


def arm_all(tx: Transaction, rows: Sequence[Letter], now: int) -> int:
    """Arm letters again, each in its lane; return how many."""
    lanes: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for _, record, *lane in rows:
        lanes[lane[0], lane[1], lane[2]].append(record)
    for (collection, space, priority), records in lanes.items():
        arm(tx, records, Arms(collection=collection, space=space, priority=priority), now)
    return len(rows)


def replay_quota(tx: Transaction, older_than: timedelta, limit: int, now: int) -> int:
    """Retry what a provider's quota stopped, once the quota may have been renewed."""
    return arm_all(tx, quota_letters(tx.db, now - span(older_than), limit), now)


def quota_letters(db: sqlite3.Connection, before: int, limit: int) -> list[Letter]:
    """Find what a provider's quota stopped before a moment."""
    conditions = f"{revivable(named=False)} AND j.reason = ? AND j.completed_at <= ?"
    statement = REVIVABLE.format(conditions=conditions, index="INDEXED BY embedq_job_failed")
    return db.execute(statement, (Reason.QUOTA, before, limit)).fetchall()


def old_jobs(db: sqlite3.Connection, before: int, limit: int) -> list[int]:
    """List some finished jobs past retention."""
    return [job for (job,) in db.execute(OLD_JOBS, (before, limit))]


def purge(tx: Transaction, jobs: Sequence[int], before: int, limit: int) -> int:
    """Delete these jobs if they are still past retention, and some spare vectors, tombstones and workers that are."""
    rows = tx.db.execute(STILL_OLD, (ids(jobs), before)).fetchall()
    if rows:
        tx.db.execute(REMOVE_JOBS, (ids([id_ for id_, _, _ in rows]),))
    for (collection, status), count in Counter((collection, status) for _, collection, status in rows).items():
        tx.tally(collection, **{COLUMN[status]: -count})
    spare = tx.db.execute(OLD_SPARE, (before, limit)).rowcount
    tx.db.execute(FORGET, (before,))
    return len(rows) + spare + _remove_tombstones(tx, before, limit)


def _remove_tombstones(tx: Transaction, before: int, limit: int) -> int:
    """Remove old tombstones; a saved index that has not seen them must be rebuilt."""
    tombstones = [seq for (seq,) in tx.db.execute(OLD_TOMBSTONES, (before, limit))]
    if tombstones:
        tx.db.execute(REMOVE_TOMBSTONES, (ids(tombstones),))
        tx.db.execute(FORGOTTEN, (tombstones[-1],))
    return len(tombstones)
