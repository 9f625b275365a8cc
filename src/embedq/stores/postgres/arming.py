"""Arm jobs as the rules say, if records and jobs are unchanged since the rules were asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from embedq.errors import NotFound
from embedq.model import EmbeddingStatus, JobId, Receipt, RecordId
from embedq.policy import jobs as rules
from embedq.stores.columns import OPEN, read_status
from embedq.stores.postgres.catalogue import Found, find
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.keys import SPACE_BITS, job_id

# The versions of a record and of its job: the transactions that last wrote them.
VERSIONS = "x.xmin::text::bigint AS version, j.xmin::text::bigint AS job_version"
ARM_UNCHANGED = "SELECT rid, job, serial FROM embedq.arm_unchanged($1, $2, $3, $4, $5, $6, $7, $8, $9)"

# The facts of records that were requested by id: live ones, and only the tenant's own.
ASKED = f"""
SELECT x.id, x.rid, {VERSIONS}, j.status, j.priority, m.record IS NULL AS current,
  coalesce(g.hash = x.hash, false) AS given_up
FROM embedq.record x LEFT JOIN embedq.job j ON j.id = (x.rid << {SPACE_BITS}) | $2::bigint
LEFT JOIN embedq.missing m ON m.collection = x.collection AND m.record = x.rid
LEFT JOIN embedq.given_up g ON g.collection = x.collection AND g.record = x.rid
WHERE x.collection = $1 AND x.id = ANY ($3) AND x.valid_to IS NULL AND ($4::text IS NULL OR x.tenant = $4)
"""

Jobs = Mapping[int, JobId | None]  # by the numbers of their records


@dataclass(frozen=True, slots=True)
class JobChange:
    """A change of a record's job, valid for the versions that were read."""

    row: Any  # with the record's number and both versions
    priority: int
    arms: bool | None = True  # False: the open job is raised to this priority; None: nothing changes


async def arm(
    db: Connection,
    collection: int,
    space: int,
    changes: Sequence[JobChange],
    now: datetime | None,
    *,
    forced: bool = False,
) -> Jobs:
    """Apply changes; return the jobs of the records that had not changed since they were read."""
    if not changes:
        return {}
    columns = [[change.row[name] for change in changes] for name in ("rid", "version", "job_version")]
    acts = [change.priority for change in changes], [change.arms for change in changes]
    rows = await db.fetch(ARM_UNCHANGED, collection, space, *columns, *acts, forced, now)
    return {row["rid"]: None if row["job"] is None else job_id(row["job"], row["serial"]) for row in rows}


async def enqueue(
    db: Connection,
    name: str,
    wanted: Sequence[RecordId],
    *,
    force: bool,
    priority: int | None,
    tenant: str | None,
    now: datetime | None,
) -> list[Receipt]:
    """Arm requested jobs as the rules say, all or none; an open job keeps the higher priority.

    What has changed between reading and writing is read again. The first call's locks are held until the end, so that
    happens once at most.
    """
    collection = await find(db, name)
    lane = collection.priority if priority is None else priority
    receipts: dict[RecordId, Receipt] = {}
    async with db.transaction():
        left: Sequence[RecordId] = list(dict.fromkeys(wanted))
        while left:
            changes = [_change(row, lane, force=force) for row in await _asked(db, collection, left, tenant)]
            jobs = await arm(db, collection.id, collection.space, changes, now, forced=force)
            made = [_receipt(change, jobs) for change in changes if change.row["rid"] in jobs]
            receipts |= {receipt.id: receipt for receipt in made}
            left = [record for record in left if record not in receipts]
    return [receipts[record] for record in wanted]


async def _asked(db: Connection, collection: Found, wanted: Sequence[RecordId], tenant: str | None) -> Sequence[Any]:
    """Read the facts of records; refuse the whole request if one does not exist or is another tenant's."""
    rows: Sequence[Any] = await db.fetch(ASKED, collection.id, collection.space, wanted, tenant)
    found = {row["id"] for row in rows}
    for record in wanted:
        if record not in found:
            raise NotFound(f"no record {record!r} in collection {collection.name!r}")
    return rows


def _change(row: Any, lane: int, *, force: bool) -> JobChange:  # noqa: ANN401 a row
    if rules.enqueue_arms(read_status(row["status"]), forced=force, current=row["current"]):
        return JobChange(row, lane)
    return JobChange(row, lane, arms=False if rises(row, lane) else None)


def rises(row: Any, lane: int) -> bool:  # noqa: ANN401 a row
    """Say whether a job is open in a lower lane."""
    return bool(row["status"] == OPEN and row["priority"] < lane)


def _receipt(change: JobChange, jobs: Jobs) -> Receipt:
    row, status = change.row, EmbeddingStatus.PENDING
    if row["current"]:
        status = EmbeddingStatus.EMBEDDED
    elif row["given_up"] and not change.arms:
        status = EmbeddingStatus.FAILED
    return Receipt(id=RecordId(row["id"]), embedding_status=status, job_id=jobs[row["rid"]])
