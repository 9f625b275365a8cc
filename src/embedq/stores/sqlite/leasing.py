"""Lease jobs: promote what is due, choose a lane, take a range of it as one lease."""

import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from embedq.model import Ask, Lease, Leased, RetryPolicy, SpaceId
from embedq.stores.sqlite.collections import SPACE_NAME, names
from embedq.stores.sqlite.given_leases import GivenLease, GivenLeases, sums
from embedq.stores.sqlite.keys import KEY, LANE, MARK, SOLO_LANES
from embedq.stores.sqlite.moments import SET_BACK, span, when
from embedq.stores.sqlite.transaction import Transaction, ids
from embedq.stores.sqlite.transaction import names as listed_names
from embedq.stores.sqlite.workers import number_of

MOST_PROMOTED = 1000
LOWEST_TURN = 10  # one lease in ten starts at the lowest lane that has work
SOLO_TURN = 2  # of the leases that may take a crashed job, every second does

# Waiting jobs that are due, or whose wait begins in the future: the clock was set back.
DUE = """
SELECT job FROM (SELECT job FROM embedq_later WHERE due <= ?1 ORDER BY due LIMIT ?3)
UNION SELECT job FROM (SELECT job FROM embedq_later WHERE since > ?2 LIMIT ?3)
"""
PROMOTE = f"""
INSERT OR IGNORE INTO embedq_ready
SELECT j.space, {KEY}, j.id, j.collection FROM json_each(?) e CROSS JOIN embedq_job j ON j.id = e.value
WHERE j.status = 0
"""
PROMOTED = "DELETE FROM embedq_later WHERE job IN (SELECT value FROM json_each(?))"

# When the next waiting job is due, or the next hold on a requested space ends.
NEXT_DUE = f"""
SELECT min(moment) FROM (
  SELECT min(due) AS moment FROM embedq_later
  UNION ALL SELECT min(s.held_until) FROM embedq_space s
  WHERE s.held_until > ?1 AND {SPACE_NAME} IN (SELECT value FROM json_each(?2)))
"""

# The requested spaces that may be worked on: none while paused, and none on hold.
OPEN_SPACES = f"""
SELECT s.id, (SELECT min(key) FROM embedq_ready WHERE space = s.id AND key < ?1), {SPACE_NAME}
FROM embedq_space s
WHERE {SPACE_NAME} IN (SELECT value FROM json_each(?2)) AND NOT (s.held_until > ?3 AND s.held_since <= ?4)
  AND (SELECT value FROM embedq_control WHERE name = 'paused') = 0
"""
LOWEST_LANE = "SELECT max(key) FROM embedq_ready WHERE space = ? AND key < ?"
SOLO = "SELECT min(key) FROM embedq_ready WHERE space = ? AND key >= ?"

# A range of the queue with everything a worker needs. Text and hash come from the record, read together. Four small
# values are packed into one number: every column of every job costs time.
TAKE = f"""
SELECT r.key, r.job, j.collection, x.id, x.text, x.hash,
  (m.record IS NULL) + j.forced * 2 + j.crashes * 4 + j.attempts * 1024, {MARK}
FROM embedq_ready r CROSS JOIN embedq_job j ON j.id = r.job
LEFT JOIN embedq_record x ON x.rid = j.record AND x.valid_to IS NULL
LEFT JOIN embedq_missing m ON m.collection = j.collection AND m.record = j.record
WHERE r.space = ? AND r.key >= ? AND r.key < ? ORDER BY r.key, r.job LIMIT ?
"""

# Remove the range from the queue. It is a prefix of its key range, so one range is enough.
REMOVE = "DELETE FROM embedq_ready WHERE space = ? AND key >= ? AND (key, job) <= (?, ?)"
LEASE = """
INSERT INTO embedq_lease (worker, space, since, renewed, until, jobs, nonce) VALUES (?, ?, ?, ?, ?, ?, ?)
"""

Taken = tuple[int, int, int, str | None, str | None, bytes | None, int, int | None]


class Turns:
    """Counts leases, so that low lanes and crashed jobs get their turn."""

    def __init__(self) -> None:
        """Start at the first turn."""
        self._leases = 0
        self._asks_alone = 0

    def lowest_first(self) -> bool:
        """Count a lease; say whether it starts at the lowest lane."""
        self._leases += 1
        return self._leases % LOWEST_TURN == 0

    def solo_first(self) -> bool:
        """Count a lease that may take a crashed job; say whether it should."""
        self._asks_alone += 1
        return self._asks_alone % SOLO_TURN == 1


@dataclass(frozen=True, slots=True)
class Batch:
    """What the writer took for a worker: raw rows. Leases are made from them on the caller's thread."""

    taken: Sequence[Taken]
    known: Mapping[int, tuple[str | None, RetryPolicy]]
    token: int
    nonce: int
    worker: int
    space: int
    space_name: SpaceId
    since: int
    until: int
    listed: str


def take(tx: Transaction, ask: Ask, turns: Turns, now: int) -> Batch | timedelta | None:
    """Lease a batch of one space; if there is none, return how long until something may be due."""
    _promote(tx.db, now)
    asked = listed_names(ask.spaces)
    found = tx.db.execute(OPEN_SPACES, (SOLO_LANES, asked, now, now + SET_BACK)).fetchall()
    taken, space = _take(tx.db, [(id_, key) for id_, key, _ in found], ask, turns)
    if not taken:
        return _until_due(tx.db, asked, now)
    return _write_lease(tx.db, taken, (space, next(name for id_, _, name in found if id_ == space)), ask, now)


def unpack(batch: Batch | timedelta | None, given: GivenLeases) -> Leased:
    """Make leases of what was taken, on the caller's thread, and cache them."""
    if not isinstance(batch, Batch):
        return Leased(again_after=batch)
    leases = _leases(batch)
    counted = sums([row[2] for row in batch.taken], [row[0] % LANE for row in batch.taken])
    jobs = [lease.job_id for lease in leases]
    right = (batch.token, batch.nonce)
    given.remember(GivenLease(*right, batch.worker, batch.space, batch.since, jobs, batch.listed, counted))
    return Leased(leases=leases)


def _promote(db: sqlite3.Connection, now: int) -> None:
    """Move waiting jobs that are due into the queue. Insert and delete name the same jobs."""
    due = [job for (job,) in db.execute(DUE, (now, now + SET_BACK, MOST_PROMOTED))]
    if due:
        listed = ids(due)
        db.execute(PROMOTE, (listed,))
        db.execute(PROMOTED, (listed,))


def _until_due(db: sqlite3.Connection, spaces: str, now: int) -> timedelta | None:
    (due,) = db.execute(NEXT_DUE, (now, spaces)).fetchone()
    return None if due is None else timedelta(milliseconds=max(0, due - now))


def _take(
    db: sqlite3.Connection, spaces: Sequence[tuple[int, int | None]], ask: Ask, turns: Turns
) -> tuple[list[Taken], int]:
    """Choose the space whose first job goes first, and take jobs of it."""
    if not ask.prefetch:
        alone = _take_alone(
            db, [space for space, _ in spaces], turns, nothing_else=all(key is None for _, key in spaces)
        )
        if alone:
            return alone
    waiting = [(key, space) for space, key in spaces if key is not None]
    if not waiting:
        return [], 0
    _, space = min(waiting)
    if not turns.lowest_first():
        return _read_range(db, space, 0, SOLO_LANES, ask.limit), space
    (lowest,) = db.execute(LOWEST_LANE, (space, SOLO_LANES)).fetchone()
    lane = lowest // LANE * LANE
    taken = _read_range(db, space, lane, SOLO_LANES, ask.limit)
    if lane and len(taken) < ask.limit:
        taken += _read_range(db, space, 0, lane, ask.limit - len(taken))
    return taken, space


def _take_alone(
    db: sqlite3.Connection, spaces: Sequence[int], turns: Turns, *, nothing_else: bool
) -> tuple[list[Taken], int] | None:
    """Take one job that crashed workers, if there is any and it is its turn."""
    for space in spaces:
        (key,) = db.execute(SOLO, (space, SOLO_LANES)).fetchone()
        if key is not None and (turns.solo_first() or nothing_else):
            return _read_range(db, space, SOLO_LANES, 2 * SOLO_LANES, 1), space
    return None


def _read_range(db: sqlite3.Connection, space: int, low: int, high: int, limit: int) -> list[Taken]:
    taken: list[Taken] = db.execute(TAKE, (space, low, high, limit)).fetchall()
    if taken:
        db.execute(REMOVE, (space, low, taken[-1][0], taken[-1][1]))
    return taken


def _write_lease(
    db: sqlite3.Connection, taken: Sequence[Taken], space: tuple[int, SpaceId], ask: Ask, now: int
) -> Batch:
    """Write the lease."""
    until = now + span(ask.span)
    worker = number_of(db, ask.worker, now)
    listed = ids([row[1] for row in taken])
    nonce = secrets.randbits(62)
    token = db.execute(LEASE, (worker, space[0], now, now, until, listed, nonce)).lastrowid or 0
    known = names(db, list({row[2] for row in taken}))
    return Batch(taken, known, token, nonce, worker, *space, now, until, listed)


def _leases(batch: Batch) -> list[Lease]:
    """Make the leases. What is the same for many is made once."""
    taken, known, space = batch.taken, batch.known, batch.space_name
    right = (batch.token, batch.nonce, when(batch.until))
    facts = {packed: _unpacked(packed) for packed in {row[6] for row in taken}}
    ends = {collection: (retry, *right) for collection, (_, retry) in known.items()}
    names_ = {collection: name or "" for collection, (name, _) in known.items()}
    dropped = {collection for collection, (name, _) in known.items() if name is None}
    make = tuple.__new__  # half the time of calling the class, a hundred times per batch
    return [
        make(
            Lease,
            (
                str(job),
                names_[collection],
                record or "",
                space,
                None if collection in dropped else text,
                hash_ or b"",
                *facts[packed],
                *ends[collection],
                mark,
            ),
        )
        for _, job, collection, record, text, hash_, packed, mark in taken
    ]


def _unpacked(packed: int) -> tuple[bool, bool, int, int]:
    """Unpack whether the vector is current and the job forced, the attempts and the crashes."""
    return bool(packed & 1), bool(packed & 2), packed >> 10, packed >> 2 & 0xFF
