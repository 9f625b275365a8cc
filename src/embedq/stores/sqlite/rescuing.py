"""Take jobs back: from expired leases, from dead workers, and by hand."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple

from embedq.model import JobId, JobStatus, Lease, Reason, RecordId, Rescued, WorkerId
from embedq.policy import jobs as rules
from embedq.policy.jobs import GiveUp
from embedq.stores.columns import write_fault
from embedq.stores.sqlite.arming import queue, unqueue
from embedq.stores.sqlite.moments import SET_BACK, span
from embedq.stores.sqlite.settle_one import GIVE_UP
from embedq.stores.sqlite.transaction import Transaction, ids

# Leases that are lost, as in `policy.jobs.is_lost` [8]: they expired, were renewed in the future (the clock was set
# back) or not for a span, or their worker is dead.
EXPIRED = """
SELECT l.token, l.nonce, l.worker, l.since, l.jobs, w.name
FROM embedq_lease l LEFT JOIN embedq_worker w ON w.id = l.worker
WHERE l.until <= ?1 OR l.renewed > ?2 OR l.renewed <= ?3 OR w.name IN (SELECT value FROM json_each(?4))
ORDER BY l.token
"""
END_LEASE = "DELETE FROM embedq_lease WHERE token = ?"

TAKEN_BACK = """
SELECT j.id, j.record, j.collection, c.name, x.id, x.hash, j.crashes, j.arm
FROM json_each(?) e CROSS JOIN embedq_job j ON j.id = e.value
JOIN embedq_collection c ON c.id = j.collection JOIN embedq_record x ON x.rid = j.record WHERE j.status = 0
"""
NOTE_CRASHES = """
UPDATE embedq_job SET token = ?1, nonce = ?2, started_at = ?3, worker = ?4, crashes = e.value ->> 1
FROM json_each(?5) e WHERE embedq_job.id = e.value ->> 0
"""
FAIL = "UPDATE embedq_job SET status = 3, completed_at = ?, last_at = ?, reason = ?, error = ?, hash = ? WHERE id = ?"

# Extend leases that still exist, expired or not.
RENEW = """
UPDATE embedq_lease SET until = ?1, renewed = ?2
WHERE (token, nonce) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?3)) RETURNING nonce, jobs
"""

# Leases that hold some of these jobs.
HOLDING = """
SELECT l.token, l.nonce, l.jobs FROM embedq_lease l WHERE EXISTS (
  SELECT 1 FROM json_each(l.jobs) e WHERE e.value IN (SELECT value FROM json_each(?)))
"""
NOTE_LEASE = "UPDATE embedq_job SET token = ?, nonce = ? WHERE id IN (SELECT value FROM json_each(?))"
CLOSE_CANCELLED = """
UPDATE embedq_job SET status = 4, completed_at = ?1, reason = ?2,
  hash = (SELECT hash FROM embedq_record WHERE rid = record) WHERE id IN (SELECT value FROM json_each(?3))
"""


class _Back(NamedTuple):
    """A job that is taken back, as it was under its lease."""

    id: int
    record: int
    collection: int
    name: str | None
    record_id: str
    hash: bytes
    crashes: int
    arm: int


def rescue(tx: Transaction, dead: Sequence[WorkerId], unrenewed_for: timedelta | None, now: int) -> list[Rescued]:
    """Take back what no worker works on any more. Writers are serialised, so no settle can interfere."""
    idle_since = -1 if unrenewed_for is None else now - span(unrenewed_for)
    leases = tx.db.execute(EXPIRED, (now, now + SET_BACK, idle_since, json.dumps(list(dead)))).fetchall()
    rescued: list[Rescued] = []
    for token, nonce, worker, since, jobs, name in leases:
        rows = [_Back(*row) for row in tx.db.execute(TAKEN_BACK, (jobs,))]
        ends = {row: rules.rescue(row.crashes, armed=row.arm >= token) for row in rows}
        crashes = json.dumps([(row.id, counted) for row, (counted, _) in ends.items()])
        tx.db.execute(NOTE_CRASHES, (token, nonce, since, worker, crashes))
        tx.db.execute(END_LEASE, (token,))
        lost = {row: counted for row, (counted, end) in ends.items() if isinstance(end, GiveUp)}
        for row, counted in lost.items():
            _fail(tx, row, counted, now)
        queue(tx, [row.id for row in rows if row not in lost])
        rescued += [_rescued(row, counted, name, lost=row in lost) for row, (counted, _) in ends.items()]
    return rescued


def _fail(tx: Transaction, row: _Back, crashes: int, now: int) -> None:
    """Make a job that crashed its workers a dead letter."""
    fault = write_fault(rules.crash_fault(crashes))
    tx.db.execute(FAIL, (now, now, Reason.CRASH_LOOP, fault, row.hash, row.id))
    tx.db.execute(GIVE_UP, (row.hash, Reason.CRASH_LOOP, row.record))
    tx.tally(row.collection, open_=-1, failed=1)
    tx.dead_letters.append((row.id, Reason.CRASH_LOOP))


def _rescued(row: _Back, crashes: int, worker: str | None, *, lost: bool) -> Rescued:
    return Rescued(
        job_id=JobId(str(row.id)),
        collection=row.name or "",
        record_id=RecordId(row.record_id),
        worker_id=WorkerId(worker) if worker else None,
        crashes=crashes,
        status=JobStatus.FAILED if lost else JobStatus.PENDING,
    )


def renew(tx: Transaction, leases: Sequence[Lease], length: timedelta, now: int) -> set[JobId]:
    """Extend leases; return the jobs that are still under them."""
    known = json.dumps(sorted({(lease.token, lease.nonce) for lease in leases}))
    rows = tx.db.execute(RENEW, (now + span(length), now, known)).fetchall()
    held = {nonce: set(json.loads(jobs)) for nonce, jobs in rows}
    return {lease.job_id for lease in leases if int(lease.job_id) in held.get(lease.nonce, ())}


def cancel(tx: Transaction, jobs: Sequence[tuple[int, int]], reason: Reason, now: int) -> None:
    """Cancel open jobs, given with their collections, wherever they are. Their leases no longer name them."""
    numbers = [job for job, _ in jobs]
    waiting = set(unqueue(tx, numbers))
    take_from_leases(tx, [job for job in numbers if job not in waiting])
    tx.db.execute(CLOSE_CANCELLED, (now, reason, ids(numbers)))
    for collection, count in Counter(collection for _, collection in jobs).items():
        tx.tally(collection, open_=-count, cancelled=count)


def take_from_leases(tx: Transaction, jobs: Sequence[int]) -> None:
    """Remove jobs from the leases that hold them, and note those leases: a late Done must show that token."""
    gone = set(jobs)
    if not gone:
        return
    for token, nonce, listed in tx.db.execute(HOLDING, (ids(jobs),)).fetchall():
        held = json.loads(listed)
        tx.db.execute(
            "UPDATE embedq_lease SET jobs = ? WHERE token = ?", (ids([j for j in held if j not in gone]), token)
        )
        tx.db.execute("DELETE FROM embedq_lease WHERE token = ? AND jobs = '[]'", (token,))
        taken = ids([job for job in held if job in gone])
        tx.db.execute(NOTE_LEASE, (token, nonce, taken))
