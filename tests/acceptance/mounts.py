"""A folder with a file system of its own, seen by one process only or gone with this one: nothing is left behind."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from embedq.testing.postgres.binaries import account
from embedq.testing.postgres.fixtures import unavailable

UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
SMALL = 'mount -t tmpfs -o size="$1" none "$2" && shift 2 && exec "$@"'
READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && shift && exec "$@"'

SHARED = 'mount -t tmpfs -o "$1" none "$2" && echo there && cat; umount --lazy "$2"; rmdir "$2"'


def small_disk(folder: Path, size: str) -> list[str]:
    """Say how to start a command for which this folder is a disk of this size."""
    _need_mounts()
    return [*UNSHARE, "sh", "-c", SMALL, "sh", size, str(folder)]


def read_only(folder: Path) -> list[str]:
    """Say how to start a command that cannot write to this folder, whoever it is."""
    _need_mounts()
    return [*UNSHARE, "sh", "-c", READ_ONLY, "sh", str(folder)]


@contextmanager
def server_disk(size: str) -> Iterator[Path]:
    """Lend a disk of this size that every process sees and a PostgreSQL server may own."""
    folder, owner = Path(tempfile.mkdtemp(prefix="embedq-disk-")), account()
    options = f"size={size},mode=0700" + (f",uid={owner.uid},gid={owner.gid}" if owner else "")
    command = ["sh", "-c", SHARED, "sh", options, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        if holder.stdout.readline() != b"there\n":
            unavailable("This machine lets nobody mount a file system: run the tests as root.")
        try:
            yield folder
        finally:
            holder.stdin.close()


def seen_by(pid: int, path: Path) -> Path:
    """Name a path as a process sees it, from outside."""
    return Path(f"/proc/{pid}/root") / path.relative_to("/")


def _need_mounts() -> None:
    trial = [*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"]
    if shutil.which("unshare") is None or subprocess.run(trial, capture_output=True, check=False).returncode:
        pytest.skip("this machine lets nobody mount a file system of one's own")
