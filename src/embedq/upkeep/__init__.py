"""What runs unasked: rescue, purge, reconcile, replay of quota letters, and a watch on the fleet."""

from embedq.upkeep.liveness import HostLiveness
from embedq.upkeep.options import UpkeepOptions
from embedq.upkeep.upkeep import Upkeep

__all__ = ["HostLiveness", "Upkeep", "UpkeepOptions"]
