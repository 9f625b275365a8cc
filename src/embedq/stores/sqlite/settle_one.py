"""One job's attempt has ended: RULES 5, by the letter."""

import json
from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

import numpy as np

from embedq.model import Done, Failed, Fault, Lease, Outcome, Reason, Released, Retry, Skipped, Vector
from embedq.stores.sqlite.arming import NOTE_FOUND, TRY_AGAIN, queue, unqueue
from embedq.stores.sqlite.keys import CANCELLED, COMPLETED, FAILED, KEY, OPEN
from embedq.stores.sqlite.moments import span
from embedq.stores.sqlite.transaction import Transaction, ids

THROTTLE_WINDOW = 3_600_000  # a provider that refuses a job for an hour without one success: a dead letter
COLUMN = {OPEN: "open_", COMPLETED: "completed", FAILED: "failed", CANCELLED: "cancelled"}

# The job and the record it is about.
JOB = """
SELECT j.id, j.record, j.collection, j.space, j.status, j.token = ?2 AND j.nonce = ?3, j.arm, j.reason, j.refused_at,
  j.queued_at, x.rid IS NOT NULL AND x.valid_to IS NULL, x.hash, x.rid IS NULL OR x.erased >= ?2 OR (
    x.erased IS NOT NULL AND NOT (j.token = ?2 AND j.nonce = ?3) AND NOT EXISTS (
      SELECT 1 FROM embedq_lease l WHERE l.token = ?2 AND l.nonce = ?3))
FROM embedq_job j LEFT JOIN embedq_record x ON x.rid = j.record WHERE j.id = ?1
"""

# Of a job that is no more: was its record's text ever removed for good? Nothing is known of the lease.
ERASED = """
SELECT x.erased IS NOT NULL FROM embedq_collection c JOIN embedq_record x ON x.collection = c.id AND x.id = ?2
WHERE c.name = ?1
"""

# Is it in the line or in the waiting room, so leased to nobody?
QUEUED = f"""
SELECT EXISTS (SELECT 1 FROM embedq_later WHERE job = ?1) OR EXISTS (
  SELECT 1 FROM embedq_job j CROSS JOIN embedq_ready r ON r.space = j.space AND r.key = {KEY} AND r.job = j.id
  WHERE j.id = ?1)
"""

# The test stands in the statement that writes.
STORE = """
INSERT OR REPLACE INTO embedq_vector (record, space, hash, truncated, embedding)
SELECT rid, ?, hash, ?, ? FROM embedq_record WHERE rid = ? AND hash = ? AND valid_to IS NULL
"""
CURRENT = """
SELECT 1 FROM embedq_vector v JOIN embedq_record x ON x.rid = v.record
WHERE v.record = ? AND v.space = ? AND v.embedding IS NOT NULL AND v.hash = x.hash AND x.valid_to IS NULL
"""

# A vector that was paid for and fits no record now may fit one later.
SPARE = "INSERT OR IGNORE INTO embedq_spare (space, hash, paid_at, embedding) VALUES (?, ?, ?, ?)"
SUCCESS = "UPDATE embedq_space SET success_at = max(success_at, ?) WHERE id = ?"
LAST_SUCCESS = "SELECT success_at FROM embedq_space WHERE id = ?"

# Any settle ends the count of crashes, and says which lease it was.
TOUCH = """
UPDATE embedq_job SET token = ?, nonce = ?, crashes = 0, started_at = coalesce(?, started_at),
  worker = coalesce(?, worker) WHERE id = ?
"""
COMPLETE = """
UPDATE embedq_job SET status = 2, hash = ?, completed_at = ?, forced = 0, reason = NULL, error = NULL, refused_at = NULL
WHERE id = ?
"""
CLOSE = "UPDATE embedq_job SET status = ?, completed_at = ?, reason = ?, hash = ? WHERE id = ?"
GIVE_UP = "UPDATE embedq_record SET given_up_hash = ?, given_up_reason = ? WHERE rid = ?"
CHARGE = """
UPDATE embedq_job SET attempts = attempts + 1, first_at = coalesce(first_at, ?1), last_at = ?1, error = ?2,
  refused_at = NULL WHERE id = ?3
"""
REFUSE = "UPDATE embedq_job SET refused_at = coalesce(refused_at, ?), last_at = ?, error = ? WHERE id = ?"
REOPEN = "UPDATE embedq_job SET status = 0, completed_at = NULL, reason = NULL WHERE id = ? AND status <> 0"
WAIT = "INSERT OR REPLACE INTO embedq_later (due, job, since) VALUES (?, ?, ?)"


class State(Enum):
    """How a job stands to the lease that speaks of it."""

    PROCESSING = auto()  # under this lease
    RESCUED = auto()  # taken back from it, and leased to nobody since
    CRASHED = auto()  # given up on, because this lease was one crash too many
    FOREIGN = auto()  # not its business any more


@dataclass(frozen=True, slots=True)
class Judged:
    """Which sum a job leaves, which it joins, whether its record is missing a vector no longer, and what was stored."""

    collection: int
    was: str
    to: str
    found: int
    stored_after: int | None  # milliseconds in the queue; None: no vector was stored


@dataclass(slots=True)
class Case:
    """A job, its record, and what a lease that ended says of them."""

    tx: Transaction
    lease: Lease
    now: int
    id: int
    record: int
    collection: int
    space: int
    status: int
    armed: bool  # since that lease
    fits: bool  # the record is live with the text that was leased
    live: bool
    refused_at: int | None
    queued_at: int
    erased: bool  # the text was removed for good since that lease
    found: int = 0
    stored_after: int | None = None

    @property
    def overtaken(self) -> bool:
        """Something newer has happened than what the lease speaks of."""
        return self.armed or not self.fits


def judge(
    tx: Transaction, outcome: Outcome, *, leased: bool, held: tuple[int | None, int | None], now: int
) -> Judged | None:
    """Settle one job; None if it is not the lease's business any more."""
    lease = outcome.lease
    row = tx.db.execute(JOB, (int(lease.job_id), lease.token, lease.nonce)).fetchone()
    state = State.FOREIGN if row is None else _state(tx, row, leased=leased)
    if state is State.FOREIGN or (state is not State.PROCESSING and not isinstance(outcome, Done)):
        if isinstance(outcome, Done) and outcome.vector is not None and not _is_erased(tx, row, lease):
            tx.db.execute(SPARE, (lease.space, lease.hash, now, _blob(outcome.vector)))
        return None
    job, record, collection, space, status, _, arm, _, refused_at, queued_at, live, hash_, erased = row
    fits = bool(live) and hash_ == lease.hash
    told = (job, record, collection, space, status, arm >= lease.token, fits, bool(live), refused_at, queued_at, erased)
    case = Case(tx, lease, now, *told)
    if state is State.RESCUED:
        unqueue(tx, [job])
    tx.db.execute(TOUCH, (lease.token, lease.nonce, *held, job))
    to = _end(case, outcome)
    return Judged(collection, COLUMN[status], COLUMN[to], case.found, case.stored_after)


def _state(tx: Transaction, row: tuple[int, ...], *, leased: bool) -> State:
    job, _, _, _, status, is_its_last, _, reason, *_ = row
    if leased and status == OPEN:
        return State.PROCESSING
    if status == OPEN and is_its_last and tx.db.execute(QUEUED, (job,)).fetchone()[0]:
        return State.RESCUED
    if status == FAILED and is_its_last and reason == Reason.CRASH_LOOP:  # type: ignore[comparison-overlap]  # a TEXT column
        return State.CRASHED
    return State.FOREIGN


def _is_erased(tx: Transaction, row: tuple[int, ...] | None, lease: Lease) -> bool:
    """Say whether the text was removed for good since the lease, or its record is no more."""
    if row is not None:
        return bool(row[-1])
    found = tx.db.execute(ERASED, (lease.collection, lease.record_id)).fetchone()
    return found is None or bool(found[0])


def _end(case: Case, outcome: Outcome) -> int:
    """Apply the outcome; answer with the job's new status."""
    match outcome:
        case Done():
            return _done(case, outcome)
        case Retry() | Failed() if case.overtaken:
            return _reopen(case)
        case Retry():
            return _retry(case, outcome)
        case Failed():
            return _fail(case, outcome.fault, outcome.reason)
        case Released():
            return _release(case, outcome)
        case Skipped():
            return _reopen(case) if case.armed else _cancel(case)
        case _:
            assert_never(outcome)


def _done(case: Case, outcome: Done) -> int:
    stored = _store(case, outcome)
    if not case.live and not case.armed:
        return _cancel(case)
    if case.overtaken or not stored:
        return _reopen(case)
    case.tx.db.execute(COMPLETE, (case.lease.hash, case.now, case.id))
    case.tx.db.execute(TRY_AGAIN, (ids([case.record]),))
    return COMPLETED


def _store(case: Case, outcome: Done) -> bool:
    """Store the vector if it fits, keep it as a spare if not; without one, the stored vector must be current."""
    db = case.tx.db
    if outcome.vector is None:
        return db.execute(CURRENT, (case.record, case.space)).fetchone() is not None
    blob = _blob(outcome.vector)
    row = (case.space, outcome.truncated, blob, case.record, case.lease.hash)
    db.execute(SUCCESS, (case.now, case.space))
    if db.execute(STORE, row).rowcount != 1:
        if not case.erased:
            db.execute(SPARE, (case.space, case.lease.hash, case.now, blob))
        return False
    case.found = db.execute(NOTE_FOUND, (ids([case.record]), case.space)).rowcount
    case.stored_after = case.now - case.queued_at
    return True


def _retry(case: Case, outcome: Retry) -> int:
    case.tx.db.execute(CHARGE, (case.now, write_fault(outcome.fault), case.id))
    case.tx.db.execute(WAIT, (case.now + span(outcome.after), case.id, case.now))
    return OPEN


def _fail(case: Case, fault: Fault, reason: Reason) -> int:
    case.tx.db.execute(CHARGE, (case.now, write_fault(fault), case.id))
    return _give_up(case, reason)


def _give_up(case: Case, reason: Reason) -> int:
    case.tx.db.execute(CLOSE, (FAILED, case.now, reason, case.lease.hash, case.id))
    case.tx.db.execute(GIVE_UP, (case.lease.hash, reason, case.record))
    return FAILED


def _release(case: Case, outcome: Released) -> int:
    """Hand the job back; a provider that has refused it for the whole throttle window makes it a dead letter."""
    if case.overtaken:
        return _reopen(case)
    if outcome.refused is not None:
        case.tx.db.execute(REFUSE, (case.now, case.now, write_fault(outcome.refused), case.id))
        (success_at,) = case.tx.db.execute(LAST_SUCCESS, (case.space,)).fetchone()
        if case.refused_at is not None and case.now - max(case.refused_at, success_at) >= THROTTLE_WINDOW:
            case.tx.buried.append((case.id, Reason.QUOTA))
            return _give_up(case, Reason.QUOTA)
    if outcome.after:
        case.tx.db.execute(WAIT, (case.now + span(outcome.after), case.id, case.now))
        return OPEN
    return _reopen(case)


def _reopen(case: Case) -> int:
    """Make it pending, due now, uncharged."""
    case.tx.db.execute(REOPEN, (case.id,))
    queue(case.tx, [case.id])
    return OPEN


def _cancel(case: Case) -> int:
    case.tx.db.execute(CLOSE, (CANCELLED, case.now, Reason.RECORD_DELETED, case.lease.hash, case.id))
    return CANCELLED


def write_fault(fault: Fault) -> str:
    """Write an error as it is kept with a job."""
    noted = {"category": fault.category, "code": fault.code, "message": fault.message, "stack": fault.stack}
    return json.dumps(noted, ensure_ascii=False)


def read_fault(noted: str | None) -> Fault | None:
    """Read an error that was kept with a job."""
    return None if noted is None else Fault(**json.loads(noted))


def _blob(vector: Vector) -> bytes:
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()
