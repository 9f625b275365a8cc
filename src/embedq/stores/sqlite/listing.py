"""What operators see of the queue: jobs, counts, dead letters."""

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from embedq.errors import Invalid
from embedq.model import Counts, Job, JobFilter, JobId, JobStatus, Page, Priority, Reason, RecordId, WorkerId
from embedq.stores.columns import CANCELLED, COMPLETED, FAILED, OPEN, number, read_fault, read_retry
from embedq.stores.sqlite.collections import find, read_space
from embedq.stores.sqlite.moments import when, when_or_none
from embedq.stores.sqlite.narrowing import narrowing
from embedq.stores.sqlite.reading import OLDEST

JOBS = """
SELECT j.id, c.name, x.id, x.tenant, s.provider, s.model, s.asked, s.dimensions, s.version,
  j.status, j.priority, j.attempts, c.retry,
  j.crashes, j.created_at, j.started_at, j.completed_at, w.name, j.reason, j.error, j.first_at, j.last_at,
  j.record || '.' || j.space
FROM embedq_job j {index} JOIN embedq_collection c ON c.id = j.collection JOIN embedq_space s ON s.id = j.space
JOIN embedq_record x ON x.rid = j.record LEFT JOIN embedq_worker w ON w.id = j.worker
WHERE c.name IS NOT NULL AND {conditions} ORDER BY {order} LIMIT ?
"""

# By their records; the second for jobs given by id, where the order's index must not be used instead of a lookup.
NEWEST = "j.record DESC, j.space DESC"
NEWEST_OF_NAMED = "+j.record DESC, +j.space DESC"

# Ready jobs after a queue position, and waiting jobs.
READY = """
SELECT space, key, job FROM embedq_ready
WHERE (space, key, job) > (?, ?, ?) AND (?4 IS NULL OR collection = ?4) AND (?6 IS NULL OR EXISTS (
  SELECT 1 FROM embedq_job j JOIN embedq_record x ON x.rid = j.record WHERE j.id = job AND x.tenant = ?6))
ORDER BY space, key, job LIMIT ?5
"""
WAITING = """
SELECT l.due, l.job FROM embedq_later l CROSS JOIN embedq_job j ON j.id = l.job
WHERE (l.due, l.job) > (?, ?) AND (?3 IS NULL OR j.collection = ?3)
  AND (?5 IS NULL OR EXISTS (SELECT 1 FROM embedq_record x WHERE x.rid = j.record AND x.tenant = ?5))
ORDER BY l.due, l.job LIMIT ?4
"""

# Leased jobs, with their workers and expiry.
LEASED = """
SELECT e.value, l.since, l.until, w.name FROM embedq_lease l CROSS JOIN json_each(l.jobs) e
LEFT JOIN embedq_worker w ON w.id = l.worker
"""
TALLIES = """
SELECT c.name, c.id, c.space, t.open, t.completed, t.failed, t.cancelled, t.records, t.missing
FROM embedq_collection c JOIN embedq_tally t ON t.collection = c.id WHERE c.name IS NOT NULL ORDER BY c.name
"""
PROCESSING = """
SELECT j.collection, count(*)
FROM embedq_lease l CROSS JOIN json_each(l.jobs) e CROSS JOIN embedq_job j ON j.id = e.value
WHERE j.status = 0 GROUP BY 1
"""
TRUNCATED = """
SELECT x.collection, count(*) FROM embedq_vector v CROSS JOIN embedq_record x ON x.rid = v.record AND x.hash = v.hash
WHERE v.truncated = 1 GROUP BY 1
"""
DEAD = """
SELECT c.name, j.reason, j.error ->> '$.category', j.error ->> '$.code', count(*), max(j.completed_at),
  j.error ->> '$.message'
FROM embedq_job j INDEXED BY embedq_job_failed JOIN embedq_collection c ON c.id = j.collection
JOIN embedq_record x ON x.rid = j.record
WHERE j.status = 3 AND c.name IS NOT NULL AND (?1 IS NULL OR x.tenant = ?1)
GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4
"""

STATUS = {
    JobStatus.PROCESSING: ("j.status = 0", ""),
    JobStatus.RETRYING: ("j.status = 0 AND j.attempts > 0", "INDEXED BY embedq_job_retrying"),
    JobStatus.COMPLETED: ("j.status = 2", ""),
    JobStatus.FAILED: ("j.status = 3", "INDEXED BY embedq_job_failed"),
    JobStatus.CANCELLED: ("j.status = 4", "INDEXED BY embedq_job_cancelled"),
}
SHOWN = {
    OPEN: JobStatus.PENDING,
    COMPLETED: JobStatus.COMPLETED,
    FAILED: JobStatus.FAILED,
    CANCELLED: JobStatus.CANCELLED,
}

Holders = dict[int, tuple[int, int, str | None]]


def job(db: sqlite3.Connection, wanted: JobId) -> Job | None:
    """Read one job."""
    if not wanted.isdecimal() or int(wanted) >= 1 << 63:
        return None
    rows = _select(db, ["j.id = ?"], [int(wanted)], "", 1)
    return _job(rows[0], _holders(db)) if rows else None


def jobs(db: sqlite3.Connection, which: JobFilter, limit: int, cursor: str | None) -> Page[Job]:
    """List jobs by their records, newest first; pending ones by due time, then in queue order."""
    if which.status is JobStatus.PENDING:
        return _pending(db, which, limit, cursor)
    holders = _holders(db)
    conditions, values, index = _conditions(db, which, holders)
    if cursor is not None:
        conditions.append("(j.record, j.space) < (?, ?)")
        values += _place(cursor, 2)
    order = NEWEST_OF_NAMED if which.status is JobStatus.PROCESSING else NEWEST
    rows = _select(db, conditions, values, index, limit, order)
    return Page([_job(row, holders) for row in rows], rows[-1][-1] if len(rows) == limit else None)


def _pending(db: sqlite3.Connection, which: JobFilter, limit: int, cursor: str | None) -> Page[Job]:
    """List waiting jobs, then ready ones: one that becomes due meanwhile is among these. A cursor is of either."""
    collection = None if which.collection is None else find(db, which.collection).id
    if which.reason is not None:
        return Page([], None)  # only ended jobs have one
    place = _place(cursor, 2, 3) if cursor else [0, 0]
    found: list[tuple[int, ...]] = []
    if len(place) == 2:  # noqa: PLR2004 due, job
        found = db.execute(WAITING, (*place, collection, limit, which.tenant)).fetchall()
        place = [0, 0, 0]
    if len(found) < limit:
        found += db.execute(READY, (*place, collection, limit - len(found), which.tenant)).fetchall()
    listed = json.dumps([row[-1] for row in found])
    rows = {row[0]: row for row in _select(db, ["j.id IN (SELECT value FROM json_each(?))"], [listed], "", limit)}
    shown = [_job(rows[row[-1]], {}) for row in found if row[-1] in rows]
    return Page(shown, ".".join(map(str, found[-1])) if len(found) == limit else None)


def _place(cursor: str, *sizes: int) -> list[int]:
    """Read a cursor with as many numbers as this list needs."""
    place = [number(part) for part in cursor.split(".")]
    if len(place) not in sizes:
        raise Invalid(f"{cursor!r} is not a cursor of this list: take next_cursor from the answer before")
    return place


def _conditions(db: sqlite3.Connection, which: JobFilter, holders: Holders) -> tuple[list[str], list[Any], str]:
    conditions, values, index = ["1"], list[Any](), ""
    if which.status is not None:
        condition, index = STATUS[which.status]
        conditions.append(condition)
    if which.status is JobStatus.PROCESSING:
        conditions.append("j.id IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(list(holders)))
    if which.status is JobStatus.RETRYING:
        conditions.append("j.id NOT IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(list(holders)))
    narrowed, wanted = narrowing(db, which)
    return [*conditions, *narrowed], [*values, *wanted], index


def _select(
    db: sqlite3.Connection,
    conditions: Sequence[str],
    values: Sequence[Any],
    index: str,
    limit: int,
    order: str = NEWEST_OF_NAMED,
) -> list[tuple[Any, ...]]:
    statement = JOBS.format(conditions=" AND ".join(conditions), index=index, order=order)
    return db.execute(statement, (*values, limit)).fetchall()


def _holders(db: sqlite3.Connection) -> Holders:
    return {job: (since, until, worker) for job, since, until, worker in db.execute(LEASED)}


def _job(row: tuple[Any, ...], holders: Holders) -> Job:
    (id_, collection, record, tenant), space = row[:4], row[4:9]
    (status, priority, attempts, retry, crashes, created_at, started_at, completed_at) = row[9:17]
    (worker, reason, error, first_at, last_at, _) = row[17:]
    since, until, holder = holders.get(id_, (None, None, None)) if status == OPEN else (None, None, None)
    shown = JobStatus.PROCESSING if until else SHOWN[status]
    if shown is JobStatus.PENDING and attempts:
        shown = JobStatus.RETRYING
    started = since or (started_at if status == COMPLETED or attempts else None)
    return Job(
        id=JobId(str(id_)),
        collection=collection,
        record_id=RecordId(record),
        tenant=tenant,
        space=str(read_space(space)),
        status=shown,
        priority=Priority(priority),
        attempts=attempts,
        max_attempts=read_retry(retry).max_attempts,
        crashes=crashes,
        created_at=when(created_at),
        started_at=when_or_none(started),
        completed_at=when_or_none(completed_at),
        lease_until=when_or_none(until),
        worker_id=WorkerId(holder or worker) if holder or worker else None,
        processing_time_ms=completed_at - started_at if status == COMPLETED and started_at else None,
        reason=Reason(reason) if reason else None,
        error=read_fault(error),
        first_attempt_at=when_or_none(first_at),
        last_attempt_at=when_or_none(last_at),
    )


def counts(db: sqlite3.Connection) -> dict[str, Counts]:
    """Count per collection: maintained sums, and a scan of the few leases there are."""
    processing: Counter[int] = Counter(dict(db.execute(PROCESSING).fetchall()))
    truncated: Counter[int] = Counter(dict(db.execute(TRUNCATED).fetchall()))
    return {
        name: Counts(
            pending=opened - processing[id_],
            processing=processing[id_],
            completed=completed,
            failed=failed,
            cancelled=cancelled,
            records=records,
            missing=missing,
            truncated=truncated[id_],
        )
        for name, id_, _, opened, completed, failed, cancelled, records, missing in db.execute(TALLIES)
    }


def oldest_pending(db: sqlite3.Connection, now: int) -> dict[str, timedelta]:
    """Return per collection how long its oldest open job has waited."""
    waits = {}
    for name, id_, space, *_ in db.execute(TALLIES).fetchall():
        (oldest,) = db.execute(OLDEST, (space, id_)).fetchone()
        if oldest is not None:
            waits[name] = timedelta(milliseconds=max(0, now - oldest))
    return waits


def dead_stats(db: sqlite3.Connection, tenant: str | None) -> list[dict[str, Any]]:
    """Group dead letters by cause."""
    names = ("collection", "reason", "category", "code", "count", "newest_at", "example")
    found = [dict(zip(names, row, strict=True)) for row in db.execute(DEAD, (tenant,))]
    return [group | {"newest_at": when(group["newest_at"])} for group in found]
