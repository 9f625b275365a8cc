"""What the tables themselves say, past everything that could make it look better."""

from typing import Any

import asyncpg
from tests.acceptance.load import Writer, check_integrity, paid_twice
from tests.acceptance.processes import Api, Place, Process

SPACES = "SELECT id FROM embedq.space WHERE dimensions IS NOT NULL ORDER BY id"
LEFT = """
SELECT (SELECT count(*) FROM embedq.ready) AS ready, (SELECT count(*) FROM embedq.later) AS later,
  (SELECT count(*) FROM embedq.lease) AS leases, (SELECT count(*) FROM embedq.missing) AS missing,
  (SELECT count(*) FROM embedq.job WHERE status <> 2) AS unfinished,
  (SELECT max(crashes) FROM embedq.job) AS crashes, (SELECT max(attempts) FROM embedq.job) AS attempts
"""
LEASES = "SELECT count(*) FROM embedq.lease l JOIN embedq.worker w ON w.id = l.worker WHERE w.pid = $1"
# Every live record beside its vectors: one, with its hash.
RECORDS = """
SELECT count(*) AS records, count(*) FILTER (WHERE v.hash = r.hash) AS current,
  (SELECT count(*) FROM embedq.vector_{space}) AS vectors
FROM embedq.record r LEFT JOIN embedq.vector_{space} v ON v.record = r.rid WHERE r.valid_to IS NULL
"""


async def facts_of(url: str) -> dict[str, Any]:
    """Read what the tables hold of records, vectors and unfinished work."""
    connection = await asyncpg.connect(url)
    try:
        [space] = await connection.fetch(SPACES)
        left = await connection.fetchrow(LEFT)
        return dict(left) | dict(await connection.fetchrow(RECORDS.format(space=space["id"])))
    finally:
        await connection.close()


async def has_leases(url: str, process: Process) -> bool:
    """Say whether a process holds jobs."""
    connection = await asyncpg.connect(url)
    try:
        return bool(await connection.fetchval(LEASES, process.pid))
    finally:
        await connection.close()


async def check_truth(place: Place, api: Api, *writers: Writer, url: str | None = None, paid_again: int = 0) -> None:
    """Check all that was acknowledged, by the API and in the tables; so many texts may have been paid for again."""
    await check_integrity(api, *writers)
    facts = await facts_of(url or place.environment["EMBEDQ_URL"])
    assert facts["current"] == facts["vectors"] == facts["records"]
    assert (facts["ready"], facts["later"], facts["leases"], facts["missing"], facts["unfinished"]) == (0, 0, 0, 0, 0)
    assert facts["attempts"] == 0
    assert paid_twice(place) <= paid_again
