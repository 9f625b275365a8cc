"""What can be set about upkeep."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOptions:
    """Interval and age threshold of each task. An interval of zero: never."""

    rescue_interval: timedelta = timedelta(seconds=60)
    heartbeat: timedelta = timedelta(seconds=60)  # the fleet's: three missed ones cause a warning
    retention: timedelta = timedelta(days=14)
    purge_interval: timedelta = timedelta(hours=1)
    finish_interval: timedelta = timedelta(minutes=1)  # also builds a vector index that has become worthwhile
    reconcile_interval: timedelta = timedelta(minutes=15)
    gather_interval: timedelta = timedelta(seconds=1)  # while workers are busy; an idle one polls itself
    replay_interval: timedelta = timedelta(hours=1)
    quota_rest: timedelta = timedelta(hours=24)  # the age at which a dead letter with reason `quota` is replayed
    retry_failed_on_startup: bool = False
    one_database: bool = True  # corpus and queue commit together, so reconcile must find nothing
