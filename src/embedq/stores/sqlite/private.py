"""Files beside the database contain its texts and vectors: only users who may open the database may open them.

A new database is private to its owner, whatever the umask. An existing one keeps the mode its operator gave it, and
files created beside it get the same mode, as SQLite's own WAL does: so two users may share one through a group.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OWNER_ONLY = 0o600
SAFE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # never follow a link, never wait on a pipe


def create_database(path: Path) -> None:
    """Create the file before SQLite does; errors are left for SQLite to report."""
    place = os.path.realpath(path)  # a link to another disk is the operator's choice
    with contextlib.suppress(OSError):
        os.close(os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL | SAFE, OWNER_ONLY))


def create_folder(folder: Path, database: Path) -> None:
    """Create a folder for the users who may read the database."""
    if not folder.exists():
        files = _stat(database)
        mode = OWNER_ONLY if files is None else stat.S_IMODE(files.st_mode) & 0o666
        folder.mkdir(exist_ok=True, mode=0o700)
        folder.chmod(mode | (mode & 0o444) >> 2 | 0o700)


def open_lock(name: str | Path, database: Path, folder: int | None = None) -> int:
    """Open a file that is only locked, creating it if needed; another user's file is locked without writing to it."""
    try:
        return create(name, database, folder)
    except FileExistsError:
        try:
            return os.open(name, os.O_RDWR | SAFE, dir_fd=folder)
        except PermissionError:
            return os.open(name, os.O_RDONLY | SAFE, dir_fd=folder)


def create(name: str | Path, database: Path, folder: int | None = None) -> int:
    """Create a file with the database's mode and, if permitted, its owner."""
    handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | SAFE, OWNER_ONLY, dir_fd=folder)
    files = _stat(database)
    if files is not None:
        os.fchmod(handle, stat.S_IMODE(files.st_mode) & 0o666)
        if os.geteuid() == 0:  # run as root, it must not lock out the service's own user
            with contextlib.suppress(OSError):
                os.fchown(handle, files.st_uid, files.st_gid)
    return handle


@contextmanager
def opened_folder(folder: Path) -> Iterator[int]:
    """Keep a folder open, so that it cannot be replaced."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def is_trusted(handle: int, database: Path) -> bool:
    """Say whether an open file was created by a user who may write the database anyway."""
    found, files = os.fstat(handle), _stat(database)
    mode, owner = (OWNER_ONLY, 0) if files is None else (files.st_mode, files.st_uid)
    known = mode & 0o020 or found.st_uid in {os.geteuid(), 0, owner}
    return stat.S_ISREG(found.st_mode) and bool(known) and not found.st_mode & ~mode & 0o022


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
