"""What each room asks of a store: the small contracts that it uses, and no others."""

from typing import Protocol

from embedq.ports.corpus import Declaring, Reading, Writing
from embedq.ports.jobs import Budgeting, Fleet, Keeping, Leasing, Operating, Pausing, Placing
from embedq.ports.lifetime import Lifetime


class Searched(Reading, Budgeting, Protocol):
    """What searches ask: records, and whether a query may be embedded."""


class Awaited(Reading, Pausing, Fleet, Protocol):
    """What whoever waits for vectors asks: records, and why nobody works."""


class UserStore(Declaring, Writing, Searched, Awaited, Protocol):
    """What applications ask."""


class Beaten(Leasing, Pausing, Fleet, Protocol):
    """What a heartbeat asks."""


class WorkerStore(Declaring, Budgeting, Beaten, Protocol):
    """What workers ask."""


class Guarded(Keeping, Fleet, Protocol):
    """What a rescue asks: leases, and whose worker is dead."""


class Reconciled(Declaring, Keeping, Protocol):
    """What a reconciler asks: collections, and what is missing in them."""


class UpkeepStore(Guarded, Reconciled, Operating, Protocol):
    """What upkeep asks."""


class Watched(Declaring, Budgeting, Operating, Pausing, Fleet, Protocol):
    """What a status is made of."""


class Drained(Operating, Pausing, Placing, Protocol):
    """What a drain looks at."""


class Examined(Placing, Lifetime, Protocol):
    """What the doctor looks at."""


class Mended(Reconciled, Placing, Protocol):
    """What a repair asks."""


class OperatorStore(Watched, Drained, Examined, Mended, Protocol):
    """What people who run it ask."""
