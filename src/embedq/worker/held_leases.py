"""The leases that a worker holds, for the heartbeat to renew."""

import threading
from collections.abc import Iterable, Sequence

from embedq.model import JobId, Lease

_Key = tuple[JobId, int, int]  # job, token and nonce: after a failover a token may come again


class HeldLeases:
    """The leases of one worker. The heartbeat's thread reads them while the worker changes them."""

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._leases: dict[_Key, Lease] = {}
        self._settling: set[_Key] = set()

    def add(self, leases: Iterable[Lease]) -> None:
        """Add leases."""
        with self._lock:
            self._leases.update((_key(lease), lease) for lease in leases)

    def settling(self, leases: Iterable[Lease]) -> None:
        """Keep renewing these, but do not report them as lost: they are being settled."""
        with self._lock:
            self._settling.update(map(_key, leases))

    def drop(self, leases: Iterable[Lease]) -> None:
        """Remove leases."""
        with self._lock:
            for key in map(_key, leases):
                self._leases.pop(key, None)
                self._settling.discard(key)

    def clear(self) -> None:
        """Remove all leases."""
        with self._lock:
            self._leases.clear()
            self._settling.clear()

    def all(self) -> Sequence[Lease]:
        """List all leases."""
        with self._lock:
            return list(self._leases.values())

    def lose(self, leases: Iterable[Lease]) -> Sequence[Lease]:
        """Remove leases that another worker has now; return those that were not being settled."""
        with self._lock:
            lost = [lease for lease in leases if _key(lease) in self._leases and _key(lease) not in self._settling]
            for lease in lost:
                del self._leases[_key(lease)]
        return lost


def _key(lease: Lease) -> _Key:
    return lease.job_id, lease.token, lease.nonce
