"""A fair gate between the processes that write to one file.

SQLite's own lock waits are polled and unfair: beside two busy workers a put waits tenths of a second. Correctness never
depends on these files: after its deadline a writer goes on to BEGIN IMMEDIATE, and the kernel frees dead locks.
"""

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path

from embedq.errors import StoreUnusable
from embedq.stores.sqlite.private import open_lock

WAIT_SECONDS = 0.5  # seconds: how long a stopped holder can delay a writer
YIELD_SECONDS = 0.02  # seconds: how long bulk work lets others go first
FIRST_PAUSE, LONGEST_PAUSE = 0.0001, 0.0005


class Gate:
    """Writers queue at `.next` and enter at `.lock`; bulk writers queue at `.bulk` first: at most one competes."""

    def __init__(self, path: Path) -> None:
        """Open the gate's files beside the database."""
        try:
            self._bulk, self._next, self._lock = (
                open_lock(f"{path}.{name}", path) for name in ("bulk", "next", "lock")
            )
        except OSError as error:
            raise StoreUnusable(
                f"{error.filename} cannot be opened ({error.strerror}): it must be a file that this user may read"
            ) from error

    def enter(self, *, bulk: bool) -> None:
        """Wait for our turn, within the deadline."""
        deadline = time.monotonic() + WAIT_SECONDS
        if bulk:
            _wait(lambda: _taken(self._bulk), deadline)
            if _wait(self._try_enter, time.monotonic() + YIELD_SECONDS):
                return
        _wait(lambda: _taken(self._next), deadline)
        _wait(lambda: _taken(self._lock), deadline)
        fcntl.flock(self._next, fcntl.LOCK_UN)

    def _try_enter(self) -> bool:
        """Enter if no process is inside or next in the queue."""
        if not _taken(self._next):
            return False
        entered = _taken(self._lock)
        fcntl.flock(self._next, fcntl.LOCK_UN)
        return entered

    def is_awaited(self) -> bool:
        """Say whether a process is next in the queue."""
        if not _taken(self._next):
            return True
        fcntl.flock(self._next, fcntl.LOCK_UN)
        return False

    def leave(self) -> None:
        """Let the next process in."""
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        fcntl.flock(self._bulk, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the files."""
        for descriptor in (self._bulk, self._next, self._lock):
            os.close(descriptor)


def _wait(attempt: Callable[[], bool], deadline: float) -> bool:
    """Try until it succeeds or the deadline has passed."""
    pause = FIRST_PAUSE
    while not attempt():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE)
    return True


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
