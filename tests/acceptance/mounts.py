"""A folder with a file system of its own, seen by one process only, so that nothing is left behind."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
SMALL = 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"'
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'


def small_disk(folder: Path, size: str) -> list[str]:
    """Say how to start a command for which this folder is a disk of this size."""
    _need_mounts()
    return [*UNSHARE, "sh", "-c", SMALL, "sh", size, str(folder)]


def read_only(folder: Path) -> list[str]:
    """Say how to start a command that cannot write to this folder, whoever it is."""
    _need_mounts()
    return [*UNSHARE, "sh", "-c", READ_ONLY, "sh", str(folder)]


def seen_by(pid: int, path: Path) -> Path:
    """Name a path as a process sees it, from outside."""
    return Path(f"/proc/{pid}/root") / path.relative_to("/")


def _need_mounts() -> None:
    trial = [*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"]
    if shutil.which("unshare") is None or subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a file system of one's own")
