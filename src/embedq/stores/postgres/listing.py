"""What operators see of the queue: jobs, counts, dead letters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from embedq.errors import Invalid
from embedq.model import Counts, Job, JobFilter, JobId, JobStatus, Page, Priority, Reason, RecordId, WorkerId
from embedq.stores.columns import CANCELLED, COMPLETED, FAILED, OPEN, number, read_fault, read_retry
from embedq.stores.postgres.catalogue import find
from embedq.stores.postgres.collections import SPACE, read_space
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.keys import SPACE_BITS, job_id, parse
from embedq.stores.postgres.moments import NOW, milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class JobList:
    """Where jobs are listed from, in which order, and how a cursor is written and read."""

    source: str
    place: str
    order: str
    after: str


# Jobs with the lease that holds them, if any. Leases are few: they are unnested once. The limit is a literal: a generic
# plan estimates a parameter at a tenth of the table, and spends 90 ms on starting parallel workers for ten rows.
JOBS = f"""
WITH held AS MATERIALIZED (
  SELECT u.job, u.arms, l.since, l.until, w.name FROM embedq.lease l CROSS JOIN unnest(l.jobs, l.arms) u (job, arms)
  LEFT JOIN embedq.worker w ON w.id = l.worker)
SELECT j.*, c.name AS collection_name, c.retry, x.id AS record_id, x.tenant, {SPACE}, w.name AS worker_name,
  h.since, h.until, h.name AS holder, {{place}} AS place
FROM {{source}} JOIN embedq.collection c ON c.id = j.collection JOIN embedq.space s ON s.id = (j.id & 4095)
JOIN embedq.record x ON x.rid = j.id >> {SPACE_BITS} LEFT JOIN embedq.worker w ON w.id = j.worker
LEFT JOIN held h ON h.job = j.id AND h.arms >= j.fence AND j.status = 0
WHERE c.name IS NOT NULL AND {{conditions}} ORDER BY {{order}} LIMIT {{limit}}
"""

# A pending job is waiting or ready: waiting jobs come first, as they are due, then ready ones in queue order.
# The rows are chosen before anything is joined to them, so that no plan reads them all.
CHOSEN = """
(SELECT q.* FROM embedq.{table} q JOIN embedq.collection c ON c.id = q.collection AND c.name IS NOT NULL
 WHERE {{chosen}} ORDER BY {order} LIMIT {{limit}}) q JOIN embedq.job j ON j.id = q.job
"""
CHOSEN_TENANT = f"(q.job >> {SPACE_BITS}) IN (SELECT x.rid FROM embedq.record x WHERE x.tenant = ${{0}})"
MOMENT = "timestamptz 'epoch' + interval '1 microsecond' * "
PENDING_LISTS = (
    JobList(
        source=CHOSEN.format(table="later", order="q.due, q.job"),
        place="concat_ws('.', 0, round(extract(epoch FROM q.due) * 1000000), q.job)",
        order="q.due, q.job",
        after=f"(q.due, q.job) > ({MOMENT}${{0}}::bigint, ${{1}})",
    ),
    JobList(
        source=CHOSEN.format(table="ready", order="q.space, q.key, q.job"),
        place="concat_ws('.', 1, q.space, q.key, q.job)",
        order="q.space, q.key, q.job",
        after="(q.space, q.key, q.job) > (${0}, ${1}, ${2})",
    ),
)
ALL_JOBS = JobList(source="embedq.job j", place="j.id::text", order="j.id DESC", after="j.id < ${0}")
STATUS = {
    JobStatus.PENDING: "j.status = 0",
    JobStatus.PROCESSING: "j.status = 0 AND h.job IS NOT NULL",
    JobStatus.RETRYING: "j.retrying AND j.status = 0 AND h.job IS NULL",
    JobStatus.COMPLETED: "j.status = 2",
    JobStatus.FAILED: "j.failed_at IS NOT NULL",
    JobStatus.CANCELLED: "j.cancelled_at IS NOT NULL",
}
SHOWN = {
    OPEN: JobStatus.PENDING,
    COMPLETED: JobStatus.COMPLETED,
    FAILED: JobStatus.FAILED,
    CANCELLED: JobStatus.CANCELLED,
}

# Maintained sums, and a scan of the few leases there are. What an attached table has noted is pending, too.
COUNTS = """
SELECT c.name, coalesce(sum(t.open), 0) AS open, coalesce(sum(t.completed), 0) AS completed,
  coalesce(sum(t.failed), 0) AS failed, coalesce(sum(t.cancelled), 0) AS cancelled,
  coalesce(sum(t.records), 0) AS records, coalesce(sum(t.missing), 0) AS missing,
  (SELECT count(*) FROM embedq.lease l CROSS JOIN unnest(l.jobs, l.arms) u (id, arms) JOIN embedq.job j ON j.id = u.id
   WHERE j.status = 0 AND j.fence <= u.arms AND j.collection = c.id) AS processing,
  embedq.truncated(c.id, c.space) AS truncated, embedq.unread(c.id) AS unread, embedq.doubt(c.id) AS doubt
FROM embedq.collection c LEFT JOIN embedq.tally t ON t.collection = c.id
WHERE c.name IS NOT NULL GROUP BY c.id, c.name, c.space ORDER BY c.name COLLATE "C"
"""
OLDEST = f"""
SELECT c.name, {NOW} - o.oldest AS waits FROM embedq.collection c, embedq.oldest(c.id, c.space) o (oldest)
WHERE c.name IS NOT NULL AND o.oldest IS NOT NULL ORDER BY c.name COLLATE "C"
"""
DEAD = f"""
SELECT * FROM (
  SELECT c.name AS collection, j.reason, j.error::json ->> 'category' AS category, j.error::json ->> 'code' AS code,
    count(*) AS count, max(j.failed_at) AS newest_at,
    (array_agg(j.error::json ->> 'message' ORDER BY j.failed_at DESC))[1] AS example
  FROM embedq.job j JOIN embedq.collection c ON c.id = j.collection
  JOIN embedq.record x ON x.rid = j.id >> {SPACE_BITS}
  WHERE j.failed_at IS NOT NULL AND c.name IS NOT NULL AND ($1::text IS NULL OR x.tenant = $1) GROUP BY 1, 2, 3, 4) z
ORDER BY count DESC, collection COLLATE "C", reason COLLATE "C", category COLLATE "C", code COLLATE "C"
"""


async def job(db: Connection, wanted: JobId) -> Job | None:
    """Read one job."""
    named = parse(wanted)
    if named is None:
        return None
    rows = await _select(db, ALL_JOBS, 1, ["j.id = $1", "j.serial = $2"], list(named))
    return _job(rows[0]) if rows else None


async def jobs(db: Connection, which: JobFilter, limit: int, cursor: str | None) -> Page[Job]:
    """List jobs by their records, newest first; pending ones by due time, then in queue order."""
    conditions, values = await _conditions(db, which)
    if which.status is not JobStatus.PENDING:
        rows = await _select(
            db, ALL_JOBS, limit, conditions, values, after=None if cursor is None else [number(cursor)]
        )
    else:
        rows = await _pending(db, limit, conditions, values, cursor)
    return Page([_job(row) for row in rows], rows[-1]["place"] if len(rows) == limit else None)


async def _pending(
    db: Connection, limit: int, conditions: Sequence[str], values: Sequence[Any], cursor: str | None
) -> list[Any]:
    """List the waiting jobs, then the ready ones, from the cursor on."""
    first, *place = [0] if cursor is None else [number(part) for part in cursor.split(".")]
    if first >= len(PENDING_LISTS) or (cursor is not None and len(place) != PENDING_LISTS[first].after.count("$")):
        raise Invalid(f"{cursor!r} is not a cursor of this list: take next_cursor from the answer before")
    rows: list[Any] = []
    for job_list in PENDING_LISTS[first:]:
        rows += await _select(db, job_list, limit - len(rows), conditions, values, after=place or None)
        place = []
        if len(rows) == limit:
            break
    return rows


async def _conditions(db: Connection, which: JobFilter) -> tuple[list[str], list[Any]]:
    conditions, values = list[str](), list[Any]()
    if which.status is not None:
        conditions.append(STATUS[which.status])
    if which.collection is not None:
        source = "q" if which.status is JobStatus.PENDING else "j"
        conditions.append(f"{source}.collection = ${len(values) + 1}")
        values.append((await find(db, which.collection)).id)
    if which.reason is not None:
        conditions.append(f"j.reason = ${len(values) + 1}")
        values.append(str(which.reason))
    if which.tenant is not None:
        condition = CHOSEN_TENANT if which.status is JobStatus.PENDING else "x.tenant = ${0}"
        conditions.append(condition.format(len(values) + 1))
        values.append(which.tenant)
    return conditions, values


async def _select(
    db: Connection,
    job_list: JobList,
    limit: int,
    conditions: Sequence[str],
    values: Sequence[Any],
    *,
    after: Sequence[int] | None = None,
) -> Sequence[Any]:
    """Read some jobs of a list, after a position in it."""
    asked = list(conditions)
    if after is not None:
        asked.append(job_list.after.format(*range(len(values) + 1, len(values) + 1 + len(after))))
    chosen = [condition for condition in asked if condition.startswith(("q.", "(q."))]
    rest = [condition for condition in asked if condition not in chosen]
    source = job_list.source.format(chosen=" AND ".join(chosen) or "true", limit=limit)
    statement = JOBS.format(
        source=source, place=job_list.place, order=job_list.order, conditions=" AND ".join(rest) or "true", limit=limit
    )
    rows: Sequence[Any] = await db.fetch(statement, *values, *(after or ()))
    return rows


def _job(row: Mapping[str, Any]) -> Job:
    status, attempts = row["status"], row["attempts"]
    shown = JobStatus.PROCESSING if row["until"] else SHOWN[status]
    if shown is JobStatus.PENDING and attempts:
        shown = JobStatus.RETRYING
    started = row["since"] or (row["started_at"] if status == COMPLETED or attempts else None)
    took = row["completed_at"] - row["started_at"] if status == COMPLETED and row["started_at"] else None
    worker = row["holder"] or row["worker_name"]
    return Job(
        id=job_id(row["id"], row["serial"]),
        collection=row["collection_name"],
        record_id=RecordId(row["record_id"]),
        tenant=row["tenant"],
        space=str(read_space(row)),
        status=shown,
        priority=Priority(row["priority"]),
        attempts=attempts,
        max_attempts=read_retry(row["retry"]).max_attempts,
        crashes=row["crashes"],
        created_at=row["created_at"],
        started_at=started,
        completed_at=row["completed_at"],
        lease_until=row["until"],
        worker_id=WorkerId(worker) if worker else None,
        processing_time_ms=None if took is None else milliseconds(took),
        reason=Reason(row["reason"]) if row["reason"] else None,
        error=read_fault(row["error"]),
        first_attempt_at=row["first_at"],
        last_attempt_at=row["last_at"],
    )


async def counts(db: Connection) -> dict[str, Counts]:
    """Count per collection."""
    return {
        row["name"]: Counts(
            pending=row["open"] - row["processing"] + row["unread"],
            processing=row["processing"],
            completed=row["completed"],
            failed=row["failed"],
            cancelled=row["cancelled"],
            records=row["records"],
            missing=row["missing"],
            truncated=row["truncated"],
            unsure=0 if row["doubt"] is None else row["records"],
        )
        for row in await db.fetch(COUNTS)
    }


async def oldest_pending(db: Connection, now: datetime | None) -> dict[str, timedelta]:
    """Return per collection how long its oldest open job has waited."""
    return {row["name"]: max(row["waits"], timedelta(0)) for row in await db.fetch(OLDEST, now)}


async def dead_stats(db: Connection, tenant: str | None) -> list[dict[str, Any]]:
    """Group dead letters by cause."""
    return [dict(row) for row in await db.fetch(DEAD, tenant)]
