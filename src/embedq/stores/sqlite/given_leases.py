"""What this process leased and has not settled yet: cached, so that settling needs no lookup."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from embedq.model import JobId

MOST = 1024  # cached leases; older ones are settled job by job


@dataclass(frozen=True, slots=True)
class GivenLease:
    """A lease as it was given."""

    token: int
    nonce: int
    worker: int
    space: int
    since: int
    jobs: Sequence[JobId]
    listed: str  # the same, as stored in the lease row
    sums: Sequence[tuple[int, int, int]]  # per collection: how many jobs, and the sum of their `queued_at`


class GivenLeases:
    """The leases of this process."""

    def __init__(self) -> None:
        """Start with none."""
        self._known: OrderedDict[int, GivenLease] = OrderedDict()

    def remember(self, given_lease: GivenLease) -> None:
        """Store a lease."""
        self._known[given_lease.nonce] = given_lease
        if len(self._known) > MOST:
            self._known.popitem(last=False)

    def recall(self, nonce: int) -> GivenLease | None:
        """Return a lease, once. It may have been lost since: the statement that ends it detects that."""
        return self._known.pop(nonce, None)


def sums(collections: Sequence[int], queued: Sequence[int]) -> list[tuple[int, int, int]]:
    """Sum jobs, given by their collections and moments, per collection."""
    if len(set(collections)) == 1:
        return [(collections[0], len(collections), sum(queued))]
    found: dict[int, tuple[int, int]] = {}
    for collection, queued_at in zip(collections, queued, strict=True):
        count, total = found.get(collection, (0, 0))
        found[collection] = (count + 1, total + queued_at)
    return [(collection, count, total) for collection, (count, total) in found.items()]
