"""What this process leased and has not settled yet: remembered, so that settling need not ask."""

import json
import sqlite3
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from embedq.stores.sqlite.transaction import ids

MOST = 1024  # leases that are remembered; older ones are looked up

LEASE = "SELECT worker, space, since, jobs FROM embedq_lease WHERE token = ?"
JOBS = """
SELECT j.collection, j.queued_at FROM json_each(?) e CROSS JOIN embedq_job j ON j.id = e.value
"""


@dataclass(frozen=True, slots=True)
class Grant:
    """A lease as it was given."""

    token: int
    worker: int
    space: int
    since: int
    jobs: list[int]
    listed: str  # the same, as the lease row holds them
    sums: Sequence[tuple[int, int, int]]  # per collection: how many jobs, and the sum of their `queued_at`


class Grants:
    """The leases of this process."""

    def __init__(self) -> None:
        """Start with none."""
        self._known: OrderedDict[int, Grant] = OrderedDict()

    def remember(self, grant: Grant) -> None:
        """Keep a lease in mind."""
        self._known[grant.token] = grant
        if len(self._known) > MOST:
            self._known.popitem(last=False)

    def find(self, db: sqlite3.Connection, token: int) -> Grant | None:
        """Recall a lease, or look it up; None if it is gone. One that is recalled may be gone too: ending it shows."""
        known = self._known.pop(token, None)
        if known is not None:
            return known
        row = db.execute(LEASE, (token,)).fetchone()
        if row is None:
            return None
        worker, space, since, listed = row
        jobs = json.loads(listed)
        return Grant(token, worker, space, since, jobs, ids(jobs), sums(db.execute(JOBS, (listed,)).fetchall()))


def sums(jobs: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Sum jobs, given by collection and `queued_at`, per collection."""
    counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for collection, queued_at in jobs:
        count = counts[collection]
        count[0] += 1
        count[1] += queued_at
    return [(collection, count, queued) for collection, (count, queued) in counts.items()]
