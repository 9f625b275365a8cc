"""When the write-ahead log is checkpointed into the database file."""

import sqlite3
from collections.abc import Callable

FEW, MANY = 200, 600  # frames: a log between these is worth a checkpoint
LONGEST_PAUSE = 64  # commits
HIGH_TIME = 4  # pauses


class Checkpointer:
    """Checkpoints every few commits, on the writer's thread, after its answers are delivered.

    A thread of its own would never let the log restart under load; SQLite's own checkpoint would make a put wait.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        """Work on the writer's connection."""
        self._db = db
        self._commits = 0
        self._pause = 4
        self.has_work = False

    def after_commit(self, *, is_awaited: Callable[[], bool]) -> None:
        """Count a commit; checkpoint when it is due, but not while a put waits, unless it is overdue."""
        self.has_work = True
        self._commits += 1
        if self._commits >= HIGH_TIME * self._pause or (self._commits >= self._pause and not is_awaited()):
            self._commits = 0
            self._adapt(self._checkpoint("PASSIVE"))

    def truncate(self) -> None:
        """Truncate the log file when idle."""
        self.has_work = False
        self._checkpoint("TRUNCATE")

    def _adapt(self, frames: int) -> None:
        """Aim at a log of some hundred frames: checkpointing those takes about as long as a batch."""
        if frames > MANY:
            self._pause = max(1, self._pause // 2)
        elif frames < FEW:
            self._pause = min(LONGEST_PAUSE, self._pause * 2)

    def _checkpoint(self, mode: str) -> int:
        """Return how many frames were in the log. A reader or a full disk only postpones it."""
        try:
            if mode == "TRUNCATE":
                self._db.execute("PRAGMA busy_timeout = 0")
            (_, frames, _) = self._db.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
        except sqlite3.Error:
            return 0
        finally:
            self._db.execute("PRAGMA busy_timeout = 30000")
        return int(frames)
