"""How attempts end: a whole batch by set statements, and anything else job by job."""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from embedq.model import Done, JobId, Outcome
from embedq.policy.attempts import turn_of
from embedq.policy.jobs import RecordAnswer
from embedq.stores.sqlite.given_leases import GivenLease, GivenLeases
from embedq.stores.sqlite.settle_one import COMPLETED_JOB, Ended, settle_one
from embedq.stores.sqlite.transaction import Transaction, ids

LEASE = "SELECT worker, since, jobs FROM embedq_lease WHERE token = ? AND nonce = ?"

# End a lease that still holds exactly these jobs.
END_LEASE = "DELETE FROM embedq_lease WHERE token = ? AND nonce = ? AND jobs = ?"
SHRINK_LEASE = "UPDATE embedq_lease SET jobs = ? WHERE token = ?"

# Complete the jobs of a batch that are still open and were not armed since its lease: `policy.jobs.settle` says the
# same of each of them [5], since an edit arms and a deletion cancels.
COMPLETE = f"""
UPDATE embedq_job SET {COMPLETED_JOB}, completed_at = ?1, started_at = ?2, worker = ?3, token = ?4, nonce = ?5,
  crashes = 0
WHERE id IN (SELECT value FROM json_each(?6)) AND status = 0 AND arm < ?4
"""

# Store the vectors of live records that still have the embedded text. All vectors are one blob, sliced by position.
STORE = """
INSERT OR REPLACE INTO embedq_vector (record, space, hash, truncated, embedding)
SELECT j.record, j.space, x.hash, e.value ->> 1, substr(?1, 1 + e.key * ?2, ?2)
FROM json_each(?3) e CROSS JOIN embedq_job j ON j.id = e.value ->> 0 CROSS JOIN embedq_record x ON x.rid = j.record
WHERE x.hash = substr(?4, 1 + e.key * 32, 32) AND x.valid_to IS NULL
"""

# Remove one collection's records from the list of those without a current vector.
FOUND = """
DELETE FROM embedq_missing WHERE collection = ?1 AND record IN (
  SELECT j.record FROM json_each(?2) e CROSS JOIN embedq_job j ON j.id = e.value AND j.collection = ?1
)
"""

# A provider that answered no longer counts as one that only refuses.
SUCCESS = "UPDATE embedq_space SET success_at = ?1 WHERE id = ?2 AND success_at < ?1 - 1000"


Right = tuple[int, int]  # what identifies a lease: token and nonce


class _DoesNotFit(Exception):
    """Something in the batch has changed since it was leased."""


def settle(tx: Transaction, outcomes: Sequence[Outcome], given: GivenLeases, now: int) -> frozenset[JobId]:
    """Record how attempts ended; return the jobs that were still ours."""
    turns = sorted({_turn(outcome) for outcome in outcomes})
    ours: set[JobId] = set()
    for turn in turns:
        batch = outcomes if len(turns) == 1 else [outcome for outcome in outcomes if _turn(outcome) == turn]
        ours |= _settle_batch(tx, turn[1], batch, given, now)
    return frozenset(ours)


def settle_answered(
    tx: Transaction, outcomes: Sequence[Outcome], answers: Sequence[RecordAnswer], now: int
) -> frozenset[JobId]:
    """Record how attempts ended whose records are in another database, by the answers that it gave."""
    batches: dict[tuple[int, Right], list[tuple[Outcome, RecordAnswer | None]]] = defaultdict(list)
    for outcome, answer in zip(outcomes, answers, strict=True):
        batches[_turn(outcome)].append((outcome, answer))
    ours: set[JobId] = set()
    for turn in sorted(batches):
        ours |= _settle_each(tx, turn[1], batches[turn], now)
    return frozenset(ours)


def _turn(outcome: Outcome) -> tuple[int, Right]:
    """Return what an outcome is grouped and ordered by: whether it counts first, and its lease."""
    return turn_of(outcome), (outcome.lease.token, outcome.lease.nonce)


def _settle_batch(tx: Transaction, right: Right, batch: Sequence[Outcome], given: GivenLeases, now: int) -> set[JobId]:
    """Settle a whole batch at once if everything in it is done and unchanged; else job by job."""
    given_lease = given.recall(right[1])
    if given_lease is not None and _is_of(given_lease, right, batch) and (done := _all_done(batch)):
        tx.db.execute("SAVEPOINT batch")
        try:
            _complete(tx, given_lease, done, now)
        except _DoesNotFit:
            tx.db.execute("ROLLBACK TO batch")
        else:
            return set(given_lease.jobs)
        finally:
            tx.db.execute("RELEASE batch")
    return _settle_each(tx, right, [(outcome, None) for outcome in batch], now)


def _is_of(given_lease: GivenLease, right: Right, batch: Sequence[Outcome]) -> bool:
    """Say whether a batch is exactly what was given under this lease."""
    return (given_lease.token, given_lease.nonce) == right and [
        outcome.lease.job_id for outcome in batch
    ] == given_lease.jobs


def _all_done(batch: Sequence[Outcome]) -> list[Done]:
    """Return the batch's outcomes if each is Done with a vector, or needs none; else nothing."""
    done = [
        outcome
        for outcome in batch
        if isinstance(outcome, Done) and (outcome.vector is not None or outcome.lease.current)
    ]
    return done if len(done) == len(batch) else []


def _complete(tx: Transaction, given_lease: GivenLease, batch: Sequence[Done], now: int) -> None:
    """Settle a batch. A job that is open and not armed since its lease has a live record with the leased text."""
    if tx.db.execute(END_LEASE, (given_lease.token, given_lease.nonce, given_lease.listed)).rowcount != 1:
        raise _DoesNotFit
    row = (now, given_lease.since, given_lease.worker, given_lease.token, given_lease.nonce, given_lease.listed)
    if tx.db.execute(COMPLETE, row).rowcount != len(batch):
        raise _DoesNotFit
    embedded = [outcome for outcome in batch if outcome.vector is not None]
    if embedded:
        _store(tx.db, embedded)
        tx.db.execute(SUCCESS, (now, given_lease.space))
    for collection, count, _ in given_lease.sums:
        found = tx.db.execute(FOUND, (collection, given_lease.listed)).rowcount if embedded else 0
        tx.tally(collection, open_=-count, completed=count, missing=-found)
    if embedded:
        queued = sum(queued for _, _, queued in given_lease.sums) / sum(count for _, count, _ in given_lease.sums)
        tx.stored.append((len(embedded), (now - queued) / 1000))


def _store(db: sqlite3.Connection, batch: Sequence[Done]) -> None:
    blobs = [_blob(outcome) for outcome in batch]
    if len({len(blob) for blob in blobs}) != 1:
        raise _DoesNotFit
    cut = "[" + ",".join(f"[{outcome.lease.job_id},{outcome.truncated:d}]" for outcome in batch) + "]"
    hashes = b"".join(outcome.lease.hash for outcome in batch)
    if db.execute(STORE, (b"".join(blobs), len(blobs[0]), cut, hashes)).rowcount != len(batch):
        raise _DoesNotFit


def _blob(outcome: Done) -> bytes:
    return np.ascontiguousarray(outcome.vector, dtype="<f4").tobytes()


def _settle_each(
    tx: Transaction, right: Right, batch: Sequence[tuple[Outcome, RecordAnswer | None]], now: int
) -> set[JobId]:
    """Settle job by job, exactly by the rules; jobs of the lease without an outcome stay leased."""
    row = tx.db.execute(LEASE, right).fetchone()
    worker, since, listed = row or (None, None, "[]")
    held = set(json.loads(listed))
    ended: set[int] = set()
    told: list[Ended] = []
    for outcome, answer in batch:
        job = int(outcome.lease.job_id)
        leased = job in held and job not in ended
        one = settle_one(tx, outcome, leased=leased, held=(since, worker), now=now, answer=answer)
        if one is not None:
            ended.add(job)
            told.append(one)
    _sum_up(tx, told)
    _shrink(tx.db, right[0], held, ended)
    return {JobId(str(job)) for job in ended}


def _sum_up(tx: Transaction, ended: Iterable[Ended]) -> None:
    sums: dict[int, Counter[str]] = defaultdict(Counter)
    waits: list[float] = []
    for one in ended:
        sums[one.collection][one.to] += 1
        sums[one.collection][one.was] -= 1
        sums[one.collection]["missing"] -= one.found
        if one.stored_after is not None:
            waits.append(one.stored_after / 1000)
    for collection, columns in sums.items():
        tx.tally(collection, **columns)
    if waits:
        tx.stored.append((len(waits), sum(waits) / len(waits)))


def _shrink(db: sqlite3.Connection, token: int, held: set[int], ended: set[int]) -> None:
    left = held - ended
    if held and not left:
        db.execute("DELETE FROM embedq_lease WHERE token = ?", (token,))
    elif held & ended:
        db.execute(SHRINK_LEASE, (ids(sorted(left)), token))
