"""Take jobs back from expired leases and from dead workers."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from embedq.model import JobStatus, RecordId, Rescued, WorkerId
from embedq.policy import jobs as rules
from embedq.policy.jobs import SET_BACK, GiveUp, Ignore, Transition
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.keys import SPACE_BITS, job_id
from embedq.stores.postgres.moments import NOW
from embedq.stores.postgres.transitions import WRITE, columns_of

LEASES = 50  # taken back per step

# Leases that are lost, as in `policy.jobs.is_lost` [8], after a token: they expired, were renewed in the future (the
# clock was set back) or not for a span, their worker is dead, or none of their jobs is still worked on.
LOST = f"""
SELECT e.token, e.nonce, e.xmin::text::bigint AS lease_version, e.idle, e.jobs, e.arms, w.name AS worker
FROM embedq.lease e LEFT JOIN embedq.worker w ON w.id = e.worker
WHERE e.token > $2 AND (e.until <= {NOW} OR e.idle OR e.renewed > {NOW} + $3::interval
  OR e.renewed <= {NOW} - $4::interval OR w.name = ANY ($5::text[])) ORDER BY e.token LIMIT {LEASES}
"""
# The lease whose answer was lost on its way to the worker.
UNANSWERED = """
SELECT e.token, e.nonce, e.xmin::text::bigint AS lease_version, true AS idle, e.jobs, e.arms, NULL AS worker
FROM embedq.lease e WHERE e.nonce = $1
"""

# It may be about to be committed, though its answer is lost: it holds this lock until then.
OUTWAIT = "SELECT pg_advisory_xact_lock($1::bigint)"
# Each record is looked up by its number: with LIMIT the planner cannot read the whole table for them.
FACTS = f"""
SELECT l.token, l.nonce, l.lease_version, l.idle, l.worker, u.job, u.arms AS leased_arms,
  j.xmin::text::bigint AS version, j.serial, coalesce(j.status = 0 AND j.fence <= u.arms, false) AS under,
  j.arms, j.crashes, x.id AS record, x.hash, c.name AS collection
FROM ({{leases}}) l CROSS JOIN unnest(l.jobs, l.arms) u (job, arms) LEFT JOIN embedq.job j ON j.id = u.job
LEFT JOIN LATERAL (SELECT r.id, r.hash FROM embedq.record r WHERE r.rid = u.job >> {SPACE_BITS} LIMIT 1) x ON true
LEFT JOIN embedq.collection c ON c.id = j.collection
ORDER BY l.token, u.job
"""
LOST_FACTS, UNANSWERED_FACTS = FACTS.format(leases=LOST), FACTS.format(leases=UNANSWERED)

Ended = tuple[int, Transition]  # a job's count of crashes, and its transition


async def rescue(
    database: Database, dead: Sequence[WorkerId], unrenewed_for: timedelta | None, now: datetime | None
) -> list[Rescued]:
    """Take back what no worker works on any more. What another transaction locks stays in its lease until later."""
    rows = await database.fetch(LOST_FACTS, now, -1, SET_BACK, unrenewed_for, list(dead))
    rescued = await _take_back(database, rows, now)  # even if there is none, so that a missing right is reported
    while rows:
        rows = await database.fetch(LOST_FACTS, now, rows[-1]["token"], SET_BACK, unrenewed_for, list(dead))
        rescued += await _take_back(database, rows, now) if rows else []
    return rescued


async def hand_back(database: Database, nonce: int) -> tuple[int, bool]:
    """Hand back the lease whose answer was lost on its way: no worker has it, so nothing is charged.

    Answer with how many jobs went back, and whether to come back for more: those that an application holds, and those
    that have changed since they were read, stay in the lease, which is idle from now on.
    """
    await database.fetch(OUTWAIT, nonce)
    rows = await database.fetch(UNANSWERED_FACTS, nonce)
    handed_back = len(await _take_back(database, rows, None, last=True)) if rows else 0
    return handed_back, handed_back < len(rows)


async def _take_back(
    database: Database, rows: Sequence[Any], now: datetime | None, *, last: bool = False
) -> list[Rescued]:
    ends = [_end(row) for row in rows]
    changes = [_change(row, end) for row, end in zip(rows, ends, strict=True)]
    told = json.dumps(changes, ensure_ascii=False)
    answer = await database.run(lambda db: db.fetchrow(WRITE, told, "[]", [], last, now), repeat=False)
    written = set(answer["written"])
    return [_rescued(row, end) for row, end in zip(rows, ends, strict=True) if row["under"] and row["job"] in written]


def _end(row: Any) -> Ended:  # noqa: ANN401 a row
    """Ask the rules; a job that is no longer under the lease only leaves it."""
    if not row["under"]:
        return row["crashes"] or 0, Ignore()
    return rules.rescue(row["crashes"], armed=row["arms"] != row["leased_arms"], idle=row["idle"])


def _change(row: Any, end: Ended) -> dict[str, Any]:  # noqa: ANN401 a row
    crashes, transition = end
    lost = isinstance(transition, GiveUp)
    return {
        **{name: row[name] for name in ("job", "version", "token", "nonce", "lease_version")},
        "late": False,
        "arms": row["leased_arms"],
        "crashes": crashes,
        **columns_of(transition, row["hash"] or b"", rules.crash_fault(crashes) if lost else None),
    }


def _rescued(row: Any, end: Ended) -> Rescued:  # noqa: ANN401 a row
    crashes, transition = end
    return Rescued(
        job_id=job_id(row["job"], row["serial"]),
        collection=row["collection"] or "",
        record_id=RecordId(row["record"] or ""),
        worker_id=WorkerId(row["worker"]) if row["worker"] else None,
        crashes=crashes,
        status=JobStatus.FAILED if isinstance(transition, GiveUp) else JobStatus.PENDING,
    )
