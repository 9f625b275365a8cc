"""Arm jobs: the only way a job becomes pending."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from embedq.stores.columns import CANCELLED, COMPLETED, FAILED, OPEN
from embedq.stores.sqlite.keys import KEY
from embedq.stores.sqlite.transaction import Transaction, ids

# The jobs of some records.
FIND_JOBS = """
SELECT j.id, j.record, j.status FROM json_each(?) e CROSS JOIN embedq_job j ON j.record = e.value AND j.space = ?
"""

# Remove jobs from the waiting ones. Those returned were waiting.
UNQUEUE_LATER = "DELETE FROM embedq_later WHERE job IN (SELECT value FROM json_each(?)) RETURNING job"

# Remove jobs from the ready queue. Those returned were in it.
UNQUEUE_READY = f"""
DELETE FROM embedq_ready WHERE (space, key, job) IN (
  SELECT j.space, {KEY}, j.id FROM json_each(?) e CROSS JOIN embedq_job j ON j.id = e.value
) RETURNING job
"""

# Put jobs into the ready queue.
QUEUE = f"""
INSERT OR IGNORE INTO embedq_ready
SELECT j.space, {KEY}, j.id, j.collection FROM json_each(?) e CROSS JOIN embedq_job j ON j.id = e.value
"""

# Arm: the record's current hash, no failures, armed after every lease given so far.
ARM = """
UPDATE embedq_job SET hash = (SELECT hash FROM embedq_record WHERE rid = record),
  arm = (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'embedq_lease'),
  attempts = 0, crashes = 0, forced = max(forced, ?), priority = CASE status WHEN 0 THEN max(priority, ?) ELSE ? END,
  queued_at = CASE status WHEN 0 THEN queued_at ELSE ? END, status = 0, completed_at = NULL, reason = NULL,
  error = NULL, first_at = NULL, last_at = NULL, refused_at = NULL
WHERE id IN (SELECT value FROM json_each(?))
"""

# Jobs for records that have none.
CREATE = """
INSERT INTO embedq_job (record, collection, space, priority, queued_at, arm, hash, forced, created_at)
SELECT x.rid, x.collection, ?, ?, ?, (SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'embedq_lease'),
  x.hash, ?, ?
FROM json_each(?) e CROSS JOIN embedq_record x ON x.rid = e.value
RETURNING id, record
"""

# A text that is tried again is no longer given up on.
TRY_AGAIN = """
UPDATE embedq_record SET given_up_hash = NULL, given_up_reason = NULL
WHERE rid IN (SELECT value FROM json_each(?)) AND given_up_hash IS NOT NULL
"""

# Raise the priority of pending jobs.
RAISE_PRIORITY = "UPDATE embedq_job SET priority = ? WHERE id IN (SELECT value FROM json_each(?))"

# Which of these records have no vector of their current text, and which have one now.
NOTE_MISSING = """
INSERT OR IGNORE INTO embedq_missing SELECT x.collection, x.rid
FROM json_each(?1) e CROSS JOIN embedq_record x ON x.rid = e.value
LEFT JOIN embedq_vector v ON v.record = x.rid AND v.space = ?2
WHERE x.valid_to IS NULL AND (v.embedding IS NULL OR v.hash <> x.hash)
"""
NOTE_FOUND = """
DELETE FROM embedq_missing WHERE (collection, record) IN (
  SELECT x.collection, x.rid FROM json_each(?1) e CROSS JOIN embedq_record x ON x.rid = e.value
  LEFT JOIN embedq_vector v ON v.record = x.rid AND v.space = ?2
  WHERE x.valid_to IS NOT NULL OR (v.embedding IS NOT NULL AND v.hash = x.hash)
)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arms:
    """How jobs are armed."""

    collection: int
    space: int
    priority: int
    forced: bool = False


def arm(tx: Transaction, records: Sequence[int], how: Arms, now: int) -> dict[int, int]:
    """Arm the jobs of these records and return them, by record."""
    listed = ids(records)
    found = tx.db.execute(FIND_JOBS, (listed, how.space)).fetchall()
    jobs = {record: job for job, record, _ in found}
    if found:
        _rearm(tx, found, how, now)
    absent = [record for record in records if record not in jobs]
    if absent:
        jobs |= _create(tx, absent, how, now)
    tx.db.execute(TRY_AGAIN, (listed,))
    tx.wakes = True
    return jobs


def _rearm(tx: Transaction, found: Sequence[tuple[int, int, int]], how: Arms, now: int) -> None:
    """Arm existing jobs. A leased one keeps its lease: it is queued when that ends."""
    opened = [job for job, _, status in found if status == OPEN]
    closed = [job for job, _, status in found if status != OPEN]
    waiting = unqueue(tx, opened)
    every = ids([*opened, *closed])
    tx.db.execute(ARM, (how.forced, how.priority, how.priority, now, every))
    tx.db.execute(QUEUE, (ids([*waiting, *closed]),))
    was = Counter(status for _, _, status in found)
    tx.tally(
        how.collection,
        open_=len(closed),
        completed=-was[COMPLETED],
        failed=-was[FAILED],
        cancelled=-was[CANCELLED],
    )


def _create(tx: Transaction, records: Sequence[int], how: Arms, now: int) -> dict[int, int]:
    """Create jobs in the order of their records: equally old ones are queued in that order."""
    rows = tx.db.execute(CREATE, (how.space, how.priority, now, how.forced, now, ids(sorted(records)))).fetchall()
    tx.db.execute(QUEUE, (ids([job for job, _ in rows]),))
    tx.tally(how.collection, open_=len(rows))
    return {record: job for job, record in rows}


def unqueue(tx: Transaction, jobs: Sequence[int]) -> list[int]:
    """Remove open jobs from the ready queue and from the waiting ones; those not returned are leased."""
    if not jobs:
        return []
    listed = ids(jobs)
    ready = tx.db.execute(UNQUEUE_READY, (listed,)).fetchall()
    later = tx.db.execute(UNQUEUE_LATER, (listed,)).fetchall()
    return [job for (job,) in (*ready, *later)]


def queue(tx: Transaction, jobs: Sequence[int]) -> None:
    """Put open jobs into the ready queue."""
    tx.db.execute(QUEUE, (ids(jobs),))
    tx.wakes = True


def raise_priority(tx: Transaction, jobs: Sequence[int], priority: int) -> None:
    """Raise pending jobs to a higher lane; for a leased one this is only noted."""
    later = [job for (job,) in tx.db.execute(_WAITING, (ids(jobs),))]
    ready = unqueue(tx, [job for job in jobs if job not in set(later)])
    tx.db.execute(RAISE_PRIORITY, (priority, ids(jobs)))
    tx.db.execute(QUEUE, (ids(ready),))


_WAITING = "SELECT job FROM embedq_later WHERE job IN (SELECT value FROM json_each(?))"


def note_missing(tx: Transaction, records: Sequence[int], collection: int, space: int) -> int:
    """Update the list of records without a current vector for these records; return how many entries changed."""
    listed = ids(records)
    found = tx.db.execute(NOTE_FOUND, (listed, space)).rowcount
    missing = tx.db.execute(NOTE_MISSING, (listed, space)).rowcount
    tx.tally(collection, missing=missing - found)
    return missing + found
