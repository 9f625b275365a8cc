"""The protocols between the packages. An adapter conforms if it passes the suites in `testing/`.

Every `now` is the database's clock unless a test passes a time. A `Store` is both corpus and job store: if one
database holds both, `put` and `settle` are one transaction each.
"""

from typing import Protocol

from embedq.ports.corpus import Attaching, Declaring, Reading, Writing
from embedq.ports.embedder import Embedder
from embedq.ports.host import Liveness
from embedq.ports.jobs import Budgeting, Fleet, Keeping, Leasing, Operating, Pausing, Placing
from embedq.ports.lifetime import Lifetime
from embedq.ports.needs import OperatorStore, UpkeepStore, UserStore, WorkerStore
from embedq.ports.provider import Model, Provider

__all__ = [
    "Attaching",
    "Budgeting",
    "Declaring",
    "Embedder",
    "Fleet",
    "Keeping",
    "Leasing",
    "Lifetime",
    "Liveness",
    "Model",
    "Operating",
    "OperatorStore",
    "Pausing",
    "Placing",
    "Provider",
    "Reading",
    "Store",
    "UpkeepStore",
    "UserStore",
    "WorkerStore",
    "Writing",
]


class Store(
    Declaring, Writing, Reading, Leasing, Budgeting, Keeping, Placing, Operating, Pausing, Fleet, Lifetime, Protocol
):  # what an application opens
    """A corpus and its queue."""
