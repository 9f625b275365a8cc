"""The directory of a throwaway server: removed with its server, or swept by the next one."""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

from embedq.testing.postgres.binaries import Account

_PREFIX = "embedq-postgres-"
_YOUNG_SECONDS = 60.0  # a younger one may still be being created, and not locked yet


class PostgresHome:
    """A server's data and log. A directory of the caller's own is kept, a temporary one is not."""

    def __init__(self, kept: Path | None, owner: Account | None) -> None:
        """Create the directory, or use the one to be kept."""
        self._is_kept = kept is not None
        if kept is None:
            _sweep()
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        else:
            self.path = kept.absolute()
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_SH)  # the kernel releases it when we die, however we die
        self._lock: int | None = lock
        if owner is not None:
            owner.own(self.path)

    @property
    def data(self) -> Path:
        """The database cluster."""
        return self.path / "data"

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.path / "postgres.log"

    def remove(self) -> None:
        """Remove everything, unless it is to be kept; a second call does nothing."""
        if self._lock is None:
            return
        if not self._is_kept:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = None


def _sweep() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, in use, or already gone
            if time.time() - path.stat().st_mtime > _YOUNG_SECONDS:
                _remove_abandoned(path)


def _remove_abandoned(path: Path) -> None:
    lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)
