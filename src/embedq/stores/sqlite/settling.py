"""How attempts end: a whole batch by set statements, and whatever does not fit job by job."""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from embedq.model import Done, JobId, Outcome
from embedq.stores.sqlite.judging import Judged, judge
from embedq.stores.sqlite.transaction import Transaction, ids

LEASE = "SELECT worker, space, since, jobs FROM embedq_lease WHERE token = ?"
END_LEASE = "DELETE FROM embedq_lease WHERE token = ?"
SHRINK_LEASE = "UPDATE embedq_lease SET jobs = ? WHERE token = ?"

# Complete the jobs of a batch that are still open and were not armed since its lease.
COMPLETE = """
UPDATE embedq_job SET status = 2, completed_at = ?1, started_at = ?2, worker = ?3, token = ?4, crashes = 0, forced = 0,
  reason = NULL, error = NULL, refused_at = NULL
WHERE id IN (SELECT value FROM json_each(?5)) AND status = 0 AND arm < ?4
"""

# Store the vectors of records that are live with the text that was embedded. All vectors are one blob, cut by position.
STORE = """
INSERT OR REPLACE INTO embedq_vector (record, space, hash, truncated, embedding)
SELECT j.record, j.space, x.hash, e.value ->> 1, substr(?1, 1 + e.key * ?2, ?2)
FROM json_each(?3) e CROSS JOIN embedq_job j ON j.id = e.value ->> 0 CROSS JOIN embedq_record x ON x.rid = j.record
WHERE x.hash = substr(?4, 1 + e.key * 32, 32) AND x.valid_to IS NULL
"""

# Take one collection's records off the list of those without a current vector.
FOUND = """
DELETE FROM embedq_missing WHERE collection = ?1 AND record IN (
  SELECT j.record FROM json_each(?2) e CROSS JOIN embedq_job j ON j.id = e.value AND j.collection = ?1
)
"""

# What the batch is made of.
COLLECTIONS = """
SELECT j.collection, count(*), sum(j.queued_at) FROM json_each(?) e CROSS JOIN embedq_job j ON j.id = e.value GROUP BY 1
"""

# A provider that answered is no longer one that only refuses.
SUCCESS = "UPDATE embedq_space SET success_at = ?1 WHERE id = ?2 AND success_at < ?1 - 1000"


class _DoesNotFit(Exception):
    """Something in the batch is not as it was when it was leased."""


@dataclass(frozen=True, slots=True)
class Held:
    """A lease as it stands in the database."""

    token: int
    worker: int | None
    space: int | None
    since: int | None
    jobs: frozenset[int]  # empty: the lease is gone


def settle(tx: Transaction, outcomes: Sequence[Outcome], now: int) -> frozenset[JobId]:
    """Record how attempts ended; answer with the jobs that were still ours."""
    batches: dict[int, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        batches[outcome.lease.token].append(outcome)
    ours: set[JobId] = set()
    for token, batch in batches.items():
        ours |= _settle_batch(tx, token, batch, now)
    return frozenset(ours)


def _settle_batch(tx: Transaction, token: int, batch: Sequence[Outcome], now: int) -> set[JobId]:
    held = _held(tx.db, token)
    done = [outcome for outcome in batch if isinstance(outcome, Done) and outcome.vector is not None]
    jobs = [int(outcome.lease.job_id) for outcome in batch]
    if len(done) == len(batch) and held.jobs and held.jobs == frozenset(jobs):
        try:
            with tx.savepoint("batch"):
                _complete(tx, held, done, jobs, now)
        except _DoesNotFit:
            pass
        else:
            return {outcome.lease.job_id for outcome in batch}
    return _settle_each(tx, held, batch, now)


def _held(db: sqlite3.Connection, token: int) -> Held:
    row = db.execute(LEASE, (token,)).fetchone()
    if row is None:
        return Held(token, None, None, None, frozenset())
    worker, space, since, jobs = row
    return Held(token, worker, space, since, frozenset(json.loads(jobs)))


def _complete(tx: Transaction, held: Held, batch: Sequence[Done], jobs: Sequence[int], now: int) -> None:
    """Settle a batch of which everything was embedded and nothing has changed since."""
    listed = ids(jobs)
    sums = tx.db.execute(COLLECTIONS, (listed,)).fetchall()
    row = (now, held.since, held.worker, held.token, listed)
    if tx.db.execute(COMPLETE, row).rowcount != len(batch) or _store(tx.db, batch, jobs) != len(batch):
        raise _DoesNotFit
    tx.db.execute(END_LEASE, (held.token,))
    tx.db.execute(SUCCESS, (now, held.space))
    for collection, count, queued in sums:
        found = tx.db.execute(FOUND, (collection, listed)).rowcount
        tx.tally(collection, open_=-count, completed=count, missing=-found)
        tx.stored.append((count, (now - queued / count) / 1000))


def _store(db: sqlite3.Connection, batch: Sequence[Done], jobs: Sequence[int]) -> int:
    blobs = [_blob(outcome) for outcome in batch]
    if len({len(blob) for blob in blobs}) != 1:
        raise _DoesNotFit
    cut = [(job, int(outcome.truncated)) for job, outcome in zip(jobs, batch, strict=True)]
    hashes = b"".join(outcome.lease.hash for outcome in batch)
    return db.execute(STORE, (b"".join(blobs), len(blobs[0]), json.dumps(cut), hashes)).rowcount


def _blob(outcome: Done) -> bytes:
    return np.ascontiguousarray(outcome.vector, dtype="<f4").tobytes()


def _settle_each(tx: Transaction, held: Held, batch: Sequence[Outcome], now: int) -> set[JobId]:
    """Settle job by job, by the letter of the rules; jobs of the lease that nobody settled stay leased."""
    ours: set[JobId] = set()
    ended: set[int] = set()
    tallies: dict[int, Counter[str]] = defaultdict(Counter)
    for outcome in batch:
        judged = judge(
            tx, outcome, leased=int(outcome.lease.job_id) in held.jobs, held=(held.since, held.worker), now=now
        )
        if judged is None:
            continue
        ours.add(outcome.lease.job_id)
        ended.add(int(outcome.lease.job_id))
        tallies[judged.collection].update(_sums(judged))
    for collection, sums in tallies.items():
        tx.tally(collection, **sums)
    _shrink(tx.db, held, ended)
    return ours


def _sums(judged: Judged) -> dict[str, int]:
    sums = Counter({judged.to: 1})
    sums[judged.was] -= 1
    sums["missing"] -= judged.found
    return dict(sums)


def _shrink(db: sqlite3.Connection, held: Held, ended: set[int]) -> None:
    left = held.jobs - ended
    if held.jobs and not left:
        db.execute(END_LEASE, (held.token,))
    elif held.jobs and ended:
        db.execute(SHRINK_LEASE, (ids(sorted(left)), held.token))
