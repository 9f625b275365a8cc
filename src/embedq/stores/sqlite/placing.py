"""Every open job is in exactly one place: find those that are not, and repair them."""

import sqlite3
from collections.abc import Sequence

from embedq.model import JobId
from embedq.stores.columns import OPEN
from embedq.stores.sqlite.arming import queue
from embedq.stores.sqlite.file import File
from embedq.stores.sqlite.keys import KEY
from embedq.stores.sqlite.rescuing import take_from_leases
from embedq.stores.sqlite.transaction import Transaction, ids

# Open jobs that are not in exactly one place (at their queue position, waiting, or under a lease), and jobs that are
# in a place but not open.
MISPLACED = f"""
WITH place AS (
  SELECT r.job, r.space, r.key FROM embedq_ready r UNION ALL SELECT l.job, NULL, NULL FROM embedq_later l
  UNION ALL SELECT e.value, NULL, NULL FROM embedq_lease l CROSS JOIN json_each(l.jobs) e),
counted AS (
  SELECT p.job, sum(CASE WHEN p.key IS NULL OR (p.space, p.key) = (j.space, {KEY}) THEN 1 ELSE 2 END) AS n
  FROM place p LEFT JOIN embedq_job j ON j.id = p.job GROUP BY p.job)
SELECT j.id, j.status FROM embedq_job j LEFT JOIN counted c ON c.job = j.id
WHERE coalesce(c.n, 0) <> (j.status = {OPEN})
UNION ALL SELECT c.job, NULL FROM counted c WHERE NOT EXISTS (SELECT 1 FROM embedq_job j WHERE j.id = c.job)
ORDER BY 1 LIMIT ?
"""
LEAVE_LINE = "DELETE FROM embedq_ready WHERE job IN (SELECT value FROM json_each(?))"
LEAVE_LATER = "DELETE FROM embedq_later WHERE job IN (SELECT value FROM json_each(?))"
ALL = -1


class SqlitePlaces:
    """The queue positions of jobs in one file."""

    def __init__(self, file: File) -> None:
        """Use an open file."""
        self._file = file

    async def misplaced(self, *, limit: int = 1000) -> Sequence[JobId]:
        """See `ports.Placing`."""
        found = await self._file.read(lambda db: _misplaced(db, limit))
        return [JobId(str(job)) for job, _ in found]

    async def put_in_place(self, jobs: Sequence[JobId]) -> int:
        """See `ports.Placing`."""
        wanted = {int(job) for job in jobs}
        return await self._file.write(lambda tx: _put_in_place(tx, wanted))


def _misplaced(db: sqlite3.Connection, limit: int) -> list[tuple[int, int | None]]:
    return db.execute(MISPLACED, (limit,)).fetchall()


def _put_in_place(tx: Transaction, wanted: set[int]) -> int:
    """Remove jobs from wherever they are, and put the open ones into the queue."""
    wrong = [(job, status) for job, status in _misplaced(tx.db, ALL) if job in wanted]
    listed = ids([job for job, _ in wrong])
    tx.db.execute(LEAVE_LINE, (listed,))
    tx.db.execute(LEAVE_LATER, (listed,))
    take_from_leases(tx, [job for job, _ in wrong])
    queue(tx, [job for job, status in wrong if status == OPEN])
    return len(wrong)
