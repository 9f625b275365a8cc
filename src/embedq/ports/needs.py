"""What each package needs from a store: only the protocols that it uses."""

from typing import Protocol

from embedq.ports.corpus import Declaring, Reading, Writing
from embedq.ports.jobs import Budgeting, Fleet, Keeping, Leasing, Operating, Pausing, Placing
from embedq.ports.lifetime import Lifetime


class SearchStore(Reading, Budgeting, Protocol):
    """For searches: records, and whether a query may be embedded."""


class WaitStore(Reading, Pausing, Fleet, Protocol):
    """For waiting for vectors: records, and why no worker runs."""


class UserStore(Declaring, Writing, SearchStore, WaitStore, Protocol):
    """For applications."""


class HeartbeatStore(Leasing, Pausing, Fleet, Protocol):
    """For heartbeats."""


class WorkerStore(Declaring, Budgeting, HeartbeatStore, Protocol):
    """For workers."""


class RescueStore(Keeping, Fleet, Protocol):
    """For a rescue: leases, and whose worker is dead."""


class ReconcileStore(Declaring, Keeping, Protocol):
    """For a reconciler: collections, and their missing vectors."""


class UpkeepStore(RescueStore, ReconcileStore, Operating, Protocol):
    """For upkeep."""


class StatusStore(Declaring, Budgeting, Operating, Pausing, Fleet, Protocol):
    """For the queue's status."""


class DrainStore(Declaring, Operating, Pausing, Placing, Fleet, Protocol):
    """For a drain: jobs, and who can embed them."""


class CheckupStore(Placing, Lifetime, Protocol):
    """For the doctor."""


class RepairStore(ReconcileStore, Placing, Protocol):
    """For a repair."""


class OperatorStore(StatusStore, DrainStore, CheckupStore, RepairStore, Protocol):
    """For operators."""
