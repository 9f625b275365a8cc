"""Temporary files in memory: a database is created there in a tenth of the time, and a commit waits for no disk."""

import os
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")  # noqa: S108 a folder of each run's own is made in it, as in any other
LEAST_BYTES = 4 * 2**30  # what the servers of a run take at most, with some to spare


def keep_files_in_memory() -> None:
    """Let this process and its children have their temporary files in memory, unless they were told where."""
    if "TMPDIR" not in os.environ and _is_fit():
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # it may have been looked up


def _is_fit() -> bool:
    """Whether there is room, and programs may run from there: tests start some that they made or copied."""
    if not MEMORY.is_dir() or not os.access(MEMORY, os.W_OK):
        return False
    found = os.statvfs(MEMORY)
    return found.f_bavail * found.f_frsize >= LEAST_BYTES and not found.f_flag & os.ST_NOEXEC
