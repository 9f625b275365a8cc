"""The leases that a worker has in hand, for the heartbeat to renew."""

import threading
from collections.abc import Iterable, Sequence

from embedq.model import JobId, Lease

_Key = tuple[JobId, int]


class HeldLeases:
    """What one worker holds. The heartbeat's thread reads it while the worker changes it."""

    def __init__(self) -> None:
        """Hold nothing."""
        self._lock = threading.Lock()
        self._leases: dict[_Key, Lease] = {}
        self._settling: set[_Key] = set()

    def add(self, leases: Iterable[Lease]) -> None:
        """Hold these from now on."""
        with self._lock:
            self._leases.update(((lease.job_id, lease.token), lease) for lease in leases)

    def settling(self, leases: Iterable[Lease]) -> None:
        """Keep these alive, but no longer miss them: they are about to be given up."""
        with self._lock:
            self._settling.update((lease.job_id, lease.token) for lease in leases)

    def drop(self, leases: Iterable[Lease]) -> None:
        """Hold these no more."""
        with self._lock:
            for lease in leases:
                key = (lease.job_id, lease.token)
                self._leases.pop(key, None)
                self._settling.discard(key)

    def clear(self) -> None:
        """Hold nothing any more."""
        with self._lock:
            self._leases.clear()
            self._settling.clear()

    def all(self) -> Sequence[Lease]:
        """List what is held."""
        with self._lock:
            return list(self._leases.values())

    def lose(self, leases: Iterable[Lease]) -> Sequence[Lease]:
        """Stop renewing leases that are another's now; answer with those that this worker still counted on."""
        with self._lock:
            lost = [
                lease
                for lease in leases
                if (key := (lease.job_id, lease.token)) in self._leases and key not in self._settling
            ]
            for lease in lost:
                del self._leases[lease.job_id, lease.token]
        return lost
