"""What each package needs from a store: only the protocols that it uses."""

from typing import Protocol

from embedq.ports.corpus import Declaring, Reading, Writing
from embedq.ports.jobs import Budgeting, Fleet, Keeping, Leasing, Operating, Pausing, Placing
from embedq.ports.lifetime import Lifetime


class Searched(Reading, Budgeting, Protocol):
    """For searches: records, and whether a query may be embedded."""


class Awaited(Reading, Pausing, Fleet, Protocol):
    """For waiting for vectors: records, and why no worker runs."""


class UserStore(Declaring, Writing, Searched, Awaited, Protocol):
    """For applications."""


class Beaten(Leasing, Pausing, Fleet, Protocol):
    """For heartbeats."""


class WorkerStore(Declaring, Budgeting, Beaten, Protocol):
    """For workers."""


class Guarded(Keeping, Fleet, Protocol):
    """For a rescue: leases, and whose worker is dead."""


class Reconciled(Declaring, Keeping, Protocol):
    """For a reconciler: collections, and their missing vectors."""


class UpkeepStore(Guarded, Reconciled, Operating, Protocol):
    """For upkeep."""


class Watched(Declaring, Budgeting, Operating, Pausing, Fleet, Protocol):
    """For the queue's status."""


class Drained(Operating, Pausing, Placing, Protocol):
    """For a drain."""


class Examined(Placing, Lifetime, Protocol):
    """For the doctor."""


class Mended(Reconciled, Placing, Protocol):
    """For a repair."""


class OperatorStore(Watched, Drained, Examined, Mended, Protocol):
    """For operators."""
