"""Settle one job: read the facts, ask the rules (`policy.jobs`), write what they say."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple, assert_never

import numpy as np

from embedq.model import Done, Lease, Outcome, Reason, Vector
from embedq.policy import jobs
from embedq.policy.jobs import Cancel, Complete, GiveUp, Ignore, Note, RecordAnswer, Reopen, Standing, VectorFate, Wait
from embedq.stores.columns import CANCELLED, COMPLETED, FAILED, OPEN, read_status, write_fault
from embedq.stores.sqlite.arming import NOTE_FOUND, TRY_AGAIN, queue, unqueue
from embedq.stores.sqlite.collections import SPACE_NAME
from embedq.stores.sqlite.keys import KEY, MARK
from embedq.stores.sqlite.moments import span
from embedq.stores.sqlite.transaction import Transaction, ids

COLUMN = {OPEN: "open_", COMPLETED: "completed", FAILED: "failed", CANCELLED: "cancelled"}

# The job, its record, and whether it is ready or waiting, so not leased: that is checked only for a job that the
# lease does not hold (?4). A text was removed permanently since, if its record has another mark than the lease read
# (?6), or is another (?5) or none.
JOB = f"""
SELECT j.id, j.record, j.collection, j.space, j.status, j.token = ?2 AND j.nonce = ?3, j.arm, j.reason, j.refused_at,
  j.queued_at, x.rid IS NOT NULL AND x.valid_to IS NULL, x.hash, CASE WHEN NOT ?4 AND j.status = 0 THEN
    EXISTS (SELECT 1 FROM embedq_later WHERE job = ?1) OR EXISTS (
      SELECT 1 FROM embedq_ready r WHERE r.space = j.space AND r.key = {KEY} AND r.job = j.id) ELSE 0 END,
  s.success_at, v.embedding IS NOT NULL AND v.hash = x.hash, x.id IS NOT ?5 OR {MARK} IS NOT ?6
FROM embedq_job j JOIN embedq_space s ON s.id = j.space LEFT JOIN embedq_record x ON x.rid = j.record
LEFT JOIN embedq_vector v ON v.record = j.record AND v.space = j.space WHERE j.id = ?1
"""

# For a job that no longer exists: was its record's text removed permanently since?
ERASED = f"""
SELECT {MARK} IS NOT ?3 FROM embedq_collection c CROSS JOIN embedq_record x ON x.collection = c.id AND x.id = ?2
WHERE c.name = ?1
"""

# The check is part of the statement that writes [6].
STORE = """
INSERT OR REPLACE INTO embedq_vector (record, space, hash, truncated, embedding)
SELECT rid, ?, hash, ?, ? FROM embedq_record WHERE rid = ? AND hash = ? AND valid_to IS NULL
"""

# A vector that was paid for and fits no record now may fit one later.
SPARE = f"""
INSERT OR IGNORE INTO embedq_spare (space, hash, paid_at, embedding)
SELECT s.id, ?, ?, ? FROM embedq_space s WHERE {SPACE_NAME} = ?
"""
SUCCESS = "UPDATE embedq_space SET success_at = max(success_at, ?) WHERE id = ?"

# Any settle resets the count of crashes, and notes its lease.
TOUCH = """
UPDATE embedq_job SET token = ?, nonce = ?, crashes = 0, started_at = coalesce(?, started_at),
  worker = coalesce(?, worker) WHERE id = ?
"""
COMPLETED_JOB = "status = 2, forced = 0, reason = NULL, error = NULL, refused_at = NULL"
COMPLETE = f"UPDATE embedq_job SET {COMPLETED_JOB}, hash = ?, completed_at = ? WHERE id = ?"
CLOSE = "UPDATE embedq_job SET status = ?, completed_at = ?, reason = ?, hash = ? WHERE id = ?"
GIVE_UP = "UPDATE embedq_record SET given_up_hash = ?, given_up_reason = ? WHERE rid = ?"
CHARGE = """
UPDATE embedq_job SET attempts = attempts + 1, first_at = coalesce(first_at, ?1), last_at = ?1, error = ?2,
  refused_at = NULL WHERE id = ?3
"""
REFUSE = "UPDATE embedq_job SET refused_at = coalesce(refused_at, ?1), last_at = ?1, error = ?2 WHERE id = ?3"
REOPEN = "UPDATE embedq_job SET status = 0, completed_at = NULL, reason = NULL WHERE id = ? AND status <> 0"
WAIT = "INSERT OR REPLACE INTO embedq_later (due, job, since) VALUES (?, ?, ?)"


class _Row(NamedTuple):
    """A job and its record."""

    id: int
    record: int
    collection: int
    space: int
    status: int
    last: int  # this lease is the last one noted in the job's row
    arm: int
    reason: str | None
    refused_at: int | None
    queued_at: int
    live: int
    hash: bytes | None
    queued: int
    success_at: int
    current: int | None
    erased: int


@dataclass(frozen=True, slots=True)
class Ended:
    """Which sum a job leaves and which it joins, whether its record's vector was missing, and what was stored."""

    collection: int
    was: str
    to: str
    found: int
    stored_after: int | None  # milliseconds in the queue; None: no vector was stored


def settle_one(
    tx: Transaction,
    outcome: Outcome,
    *,
    leased: bool,
    held: tuple[int | None, int | None],
    now: int,
    answer: RecordAnswer | None = None,
) -> Ended | None:
    """Settle one job; None if the lease no longer concerns it.

    With an `answer` the record and its vector are in another database, which has given this answer.
    """
    lease = outcome.lease
    read = (lease.record_id, lease.erasure)
    found = tx.db.execute(JOB, (int(lease.job_id), lease.token, lease.nonce, leased, *read)).fetchone()
    row = None if found is None else _Row(*found)
    facts = _no_job(tx, lease) if row is None else _facts(row, lease, now, leased=leased)
    if answer is not None:
        facts = replace(facts, record=answer, current=True)
    fate, transition = jobs.vector_fate(outcome, facts), jobs.settle(outcome, facts)
    if isinstance(outcome, Done) and outcome.vector is not None and fate is VectorFate.KEPT and answer is None:
        tx.db.execute(SPARE, (lease.hash, now, _blob(outcome.vector), lease.space))
    if row is None or isinstance(transition, Ignore):
        return None
    if facts.standing is Standing.RESCUED:
        unqueue(tx, [row.id])
    tx.db.execute(TOUCH, (lease.token, lease.nonce, *held, row.id))
    newly_found = _store(tx, row, outcome, fate, now, elsewhere=answer is not None)
    to = _write(tx, row, outcome, transition, now)
    after = None if newly_found is None else now - row.queued_at
    return Ended(row.collection, COLUMN[row.status], COLUMN[to], newly_found or 0, after)


def _facts(row: _Row, lease: Lease, now: int, *, leased: bool) -> jobs.AttemptFacts:
    status = read_status(row.status, queued=bool(row.queued))
    reason = None if row.reason is None else Reason(row.reason)
    record = RecordAnswer.GONE
    if row.live:
        record = RecordAnswer.FITS if row.hash == lease.hash else RecordAnswer.CHANGED
    refused_for = None
    if row.refused_at is not None:
        refused_for = timedelta(milliseconds=now - max(row.refused_at, row.success_at))
    return jobs.AttemptFacts(
        standing=jobs.standing(status, under=leased, last=bool(row.last), reason=reason),
        armed=row.arm >= lease.token,
        record=record,
        current=bool(row.current),
        erased=bool(row.erased),
        refused_for=refused_for,
    )


def _no_job(tx: Transaction, lease: Lease) -> jobs.AttemptFacts:
    """Return what is known of a job that no longer exists."""
    found = tx.db.execute(ERASED, (lease.collection, lease.record_id, lease.erasure)).fetchone()
    erased = found is None or bool(found[0])
    return jobs.AttemptFacts(standing=Standing.FOREIGN, armed=False, record=RecordAnswer.GONE, erased=erased)


def _store(tx: Transaction, row: _Row, outcome: Outcome, fate: VectorFate, now: int, *, elsewhere: bool) -> int | None:
    """Store a vector if it fits; return how many records then no longer lack one. The provider has answered anyway."""
    if not isinstance(outcome, Done) or outcome.vector is None:
        return None
    tx.db.execute(SUCCESS, (now, row.space))
    if fate is not VectorFate.STORED:
        return None
    if elsewhere:
        return 0
    tx.db.execute(STORE, (row.space, outcome.truncated, _blob(outcome.vector), row.record, outcome.lease.hash))
    return tx.db.execute(NOTE_FOUND, (ids([row.record]), row.space)).rowcount


def _write(tx: Transaction, row: _Row, outcome: Outcome, transition: jobs.Transition, now: int) -> int:
    """Write a job's transition; return its new status."""
    match transition:
        case Complete():
            tx.db.execute(COMPLETE, (outcome.lease.hash, now, row.id))
            tx.db.execute(TRY_AGAIN, (ids([row.record]),))
            return COMPLETED
        case GiveUp():
            _note(tx, row, outcome, transition.note, now)
            return _give_up(tx, row, outcome.lease, transition, now)
        case Wait():
            _note(tx, row, outcome, transition.note, now)
            return _wait(tx, row, transition.after, now)
        case Reopen():
            return _wait(tx, row, timedelta(0), now)
        case Cancel():
            tx.db.execute(CLOSE, (CANCELLED, now, Reason.RECORD_DELETED, outcome.lease.hash, row.id))
            return CANCELLED
        case Ignore():
            return row.status
        case _:
            assert_never(transition)


def _note(tx: Transaction, row: _Row, outcome: Outcome, note: Note, now: int) -> None:
    """Note on a job what its attempt reports."""
    fault = jobs.fault_in(outcome)
    if note is not Note.NOTHING and fault is not None:
        tx.db.execute(CHARGE if note is Note.FAILURE else REFUSE, (now, write_fault(fault), row.id))


def _give_up(tx: Transaction, row: _Row, lease: Lease, how: GiveUp, now: int) -> int:
    tx.db.execute(CLOSE, (FAILED, now, how.reason, lease.hash, row.id))
    tx.db.execute(GIVE_UP, (lease.hash, how.reason, row.record))
    if how.note is Note.REFUSAL:  # no worker reports this dead letter
        tx.dead_letters.append((row.id, how.reason))
    return FAILED


def _wait(tx: Transaction, row: _Row, after: timedelta, now: int) -> int:
    tx.db.execute(REOPEN, (row.id,))
    if after:
        tx.db.execute(WAIT, (now + span(after), row.id, now))
    else:
        queue(tx, [row.id])
    return OPEN


def _blob(vector: Vector) -> bytes:
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()
