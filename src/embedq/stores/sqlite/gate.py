"""A fair gate between the processes that write to one file.

SQLite's own waiting sleeps and is unfair: beside two busy workers a put waits tenths of a second. Correctness never
rests on these files: after its deadline a writer goes on to BEGIN IMMEDIATE, and the kernel frees dead locks.
"""

import fcntl
import os
import time
from pathlib import Path

PATIENCE = 0.5  # seconds: how long a stopped holder can delay a writer
FIRST_PAUSE, LONGEST_PAUSE = 0.0001, 0.0005


class Gate:
    """Writers queue at `.next` and enter at `.lock`; workers queue at `.bulk` first: one at most is ahead of a put."""

    def __init__(self, path: Path) -> None:
        """Open the gate's files beside the database."""
        self._bulk, self._next, self._lock = (
            os.open(f"{path}.{name}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644) for name in ("bulk", "next", "lock")
        )

    def enter(self, *, bulk: bool) -> None:
        """Wait for our turn, within the deadline."""
        deadline = time.monotonic() + PATIENCE
        if bulk:
            _take(self._bulk, deadline)
        _take(self._next, deadline)
        _take(self._lock, deadline)
        fcntl.flock(self._next, fcntl.LOCK_UN)

    def leave(self) -> None:
        """Let the next one in."""
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        fcntl.flock(self._bulk, fcntl.LOCK_UN)

    def close(self) -> None:
        """Let go of the files."""
        for descriptor in (self._bulk, self._next, self._lock):
            os.close(descriptor)


def _take(descriptor: int, deadline: float) -> None:
    pause = FIRST_PAUSE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(pause)
            pause = min(pause * 1.5, LONGEST_PAUSE)
        else:
            return
