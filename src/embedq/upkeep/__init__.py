"""Background tasks: rescue, purge, reconcile, replay of quota dead letters, and monitoring of the fleet."""

from embedq.upkeep.liveness import HostLiveness
from embedq.upkeep.options import UpkeepOptions
from embedq.upkeep.upkeep import Upkeep

__all__ = ["HostLiveness", "Upkeep", "UpkeepOptions"]
