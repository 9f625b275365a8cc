"""Starts and stops all duties of one process."""

from datetime import timedelta

from embedq.ports import Attaching, Liveness, UpkeepStore
from embedq.telemetry import Event, Telemetry
from embedq.upkeep.finish import Finish
from embedq.upkeep.gather import Gather
from embedq.upkeep.options import UpkeepOptions
from embedq.upkeep.periodic import Duty, Periodic
from embedq.upkeep.purge import Purge
from embedq.upkeep.reconcile import Reconcile
from embedq.upkeep.replay import ReplayQuota, RetryFailed
from embedq.upkeep.rescue import Rescue
from embedq.upkeep.watch import Watch

STARTUP_AGAIN = timedelta(minutes=1)  # how soon a startup duty that failed is tried again


class Upkeep:
    """Rescue, watch, purge, finish, reconcile and replay, each at start and on its own timer."""

    def __init__(self, store: UpkeepStore, liveness: Liveness, *, options: UpkeepOptions, telemetry: Telemetry) -> None:
        """Keep this store in order."""
        self._options = options
        self._telemetry = telemetry
        self._rescue = Rescue(store, liveness, telemetry, heartbeat=options.heartbeat)
        reconcile = Reconcile(store, telemetry, one_database=options.one_database)
        self._services = [
            self._periodic("rescue", options.rescue_interval, self._rescue, failed=Event.RESCUE_FAILED),
            self._periodic("watch", options.heartbeat, Watch(store, telemetry, heartbeat=options.heartbeat)),
            self._periodic("purge", options.purge_interval, Purge(store, telemetry, retention=options.retention)),
            self._periodic("finish", options.finish_interval, Finish(store)),
            self._periodic("reconcile", options.reconcile_interval, reconcile),
            self._periodic("replay", options.replay_interval, ReplayQuota(store, telemetry, rest=options.quota_rest)),
        ]
        if isinstance(store, Attaching):
            self._services.append(self._periodic("gather", options.gather_interval, Gather(store, telemetry)))
        if options.retry_failed_on_startup:
            self._services.append(self._periodic("retry-failed", STARTUP_AGAIN, RetryFailed(store, telemetry)))

    @property
    def duties(self) -> list[str]:
        """Name the duties that run, for health and logs; those switched off are left out."""
        return [service.name for service in self._services if service.is_on]

    def start(self) -> None:
        """Run every duty now, and then on its timer."""
        for service in self._services:
            service.start()

    async def stop(self) -> None:
        """Stop all."""
        for service in self._services:
            await service.stop()

    def _periodic(self, name: str, interval: timedelta, duty: Duty, *, failed: Event = Event.UPKEEP_FAILED) -> Periodic:
        return Periodic(name, interval, duty, telemetry=self._telemetry, failed=failed)
