"""Upkeep: missing vectors, old rows, and dead letters that are tried again."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from embedq.model import JobFilter, JobId, Missing, RecordId
from embedq.stores.columns import needs_job, number, revivable
from embedq.stores.postgres.arming import VERSIONS, JobChange, arm
from embedq.stores.postgres.catalogue import find
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.keys import SPACE_BITS, parse
from embedq.stores.postgres.moments import NOW

# The facts that decide whether a record without a current vector gets a job [10].
NEED = "j.status, j.reason, j.hash = x.hash AS same_text, g.hash = x.hash AS given_up"

# Live records without a current vector, in the order they were first put.
MISSING = f"""
SELECT m.record, x.id, {NEED} FROM embedq.missing m
JOIN embedq.record x ON x.rid = m.record LEFT JOIN embedq.job j ON j.id = (x.rid << {SPACE_BITS}) | $2::bigint
LEFT JOIN embedq.given_up g ON g.collection = m.collection AND g.record = m.record
WHERE m.collection = $1 AND m.record > $3 ORDER BY m.record LIMIT $4
"""

# Those of these records that are live and lack a current vector.
LACKING = f"""
SELECT x.rid, {VERSIONS}, {NEED} FROM embedq.record x
JOIN embedq.missing m ON m.collection = x.collection AND m.record = x.rid
LEFT JOIN embedq.job j ON j.id = (x.rid << {SPACE_BITS}) | $2::bigint
LEFT JOIN embedq.given_up g ON g.collection = x.collection AND g.record = x.rid
LEFT JOIN LATERAL embedq.stored($2::int, ARRAY[x.rid]) v ON true
WHERE x.collection = $1 AND x.id = ANY ($3) AND x.valid_to IS NULL AND v.hash IS DISTINCT FROM x.hash
"""
CANCEL = "SELECT embedq.cancel($1, $2, $3, $4)"
DELETE_RECORDS = "SELECT embedq.delete_records($1, $2, $3, $4, $5, $6)"
REMOVE_DROPPED = "SELECT embedq.remove_dropped($1, $2)"
PURGE_JOBS = f"SELECT * FROM embedq.purge_jobs($3, {NOW} - $2::interval, $4)"
PURGE_REST = f"SELECT embedq.purge_rest({NOW} - $2::interval, $3)"

# Jobs that may be tried again, with their records, which must be live.
ENDED = f"""
SELECT x.rid, j.collection, (j.id & {(1 << SPACE_BITS) - 1})::int AS space, j.priority, {VERSIONS}
FROM embedq.job j JOIN embedq.record x ON x.rid = j.id >> {SPACE_BITS} AND x.valid_to IS NULL
WHERE {{conditions}} ORDER BY j.id LIMIT $1
"""
NAMED = f"j.id = $2 AND j.serial = $3 AND ($4::text IS NULL OR x.tenant = $4) AND {revivable(named=True)}"
DEAD = f"j.failed_at IS NOT NULL AND {revivable(named=False)}"  # by the index of dead letters
QUOTA = f"{DEAD} AND j.reason = 'quota' AND j.failed_at <= coalesce($2::timestamptz, clock_timestamp()) - $3::interval"

# A range of records.
WALK = "SELECT rid, id FROM embedq.record WHERE collection = $1 AND id > $2 ORDER BY id LIMIT $3"
HOLD = "SELECT embedq.hold_records($1, $2)"
NOTE_MISSING = "SELECT embedq.note_missing($1, $2, $3)"


async def missing(db: Connection, name: str, after: str | None, limit: int) -> list[Missing]:
    """List live records without a current vector."""
    collection = await find(db, name)
    rows = await db.fetch(MISSING, collection.id, collection.space, number(after), limit)
    return [Missing(key=str(row["record"]), id=RecordId(row["id"]), needs_job=_needs_job(row)) for row in rows]


async def reconcile(db: Connection, name: str, records: Sequence[RecordId], now: datetime | None) -> int:
    """Give jobs to those of these records that need one."""
    collection = await find(db, name)
    rows = await db.fetch(LACKING, collection.id, collection.space, list(dict.fromkeys(records)))
    in_need = [JobChange(row, collection.priority) for row in rows if _needs_job(row)]
    return len(await arm(db, collection.id, collection.space, in_need, now))


def _needs_job(row: Any) -> bool:  # noqa: ANN401 a row
    return needs_job(row["status"], row["reason"], row["same_text"], row["given_up"])


async def recount(db: Connection, name: str, after: str | None, limit: int) -> tuple[int, str | None]:
    """Compare a range of records with their vectors, and correct the list of what is missing."""
    async with db.transaction():
        collection = await find(db, name)
        rows = await db.fetch(WALK, collection.id, after or "", limit)
        rids = [row["rid"] for row in rows]
        await db.fetchval(HOLD, collection.space, rids)
        mended = await db.fetchval(NOTE_MISSING, collection.id, collection.space, rids)
    return int(mended), rows[-1]["id"] if len(rows) == limit else None


async def remove_dropped(database: Database, limit: int, now: datetime | None) -> int:
    """Remove some rows of dropped collections; return 0 when none is left."""
    return int(await database.write(lambda db: db.fetchval(REMOVE_DROPPED, limit, now), repeat=False))


async def cancel(db: Connection, job: JobId, tenant: str | None, now: datetime | None) -> None:
    """Cancel an open job on request."""
    named = parse(job)
    if named is not None:
        await db.fetchval(CANCEL, *named, now, tenant)


async def revived(
    db: Connection, which: JobFilter, job: JobId | None, limit: int, now: datetime | None
) -> Sequence[int]:
    """Arm dead letters again, or one failed or cancelled job; return their records."""
    if job is None:
        conditions, values = await _conditions(db, which)
        return await _revive(db, f"{DEAD} {conditions}", (limit, *values), now)
    named = parse(job)
    return [] if named is None else await _revive(db, NAMED, (1, *named, which.tenant), now)


async def _conditions(db: Connection, which: JobFilter) -> tuple[str, list[Any]]:
    conditions, values = "", list[Any]()
    if which.collection is not None:
        values.append((await find(db, which.collection)).id)
        conditions += f" AND j.collection = ${len(values) + 1}"
    if which.reason is not None:
        values.append(str(which.reason))
        conditions += f" AND j.reason = ${len(values) + 1}"
    if which.tenant is not None:
        values.append(which.tenant)
        conditions += f" AND x.tenant = ${len(values) + 1}"
    return conditions, values


async def _revive(db: Connection, conditions: str, values: Sequence[Any], now: datetime | None) -> Sequence[int]:
    """Arm the jobs that meet these conditions, by collection; if all have changed since they were read, read again."""
    armed: list[int] = []
    while not armed and (rows := await db.fetch(ENDED.format(conditions=conditions), *values)):
        homes: dict[tuple[int, int], list[JobChange]] = defaultdict(list)
        for row in rows:
            homes[row["collection"], row["space"]].append(JobChange(row, row["priority"]))
        for home, changes in homes.items():
            armed += await arm(db, *home, changes, now)
    return armed


async def replayed_quota(db: Connection, older_than: timedelta, limit: int, now: datetime | None) -> Sequence[int]:
    """Retry jobs that a provider's quota stopped, once it may have been renewed; return their records."""
    return await _revive(db, QUOTA, (limit, now, older_than), now)
