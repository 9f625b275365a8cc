"""Files that commands write: for their owner alone, and never over a database."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import IO, TextIO

from embedq.errors import Invalid

OWNER_ONLY = 0o600  # they hold texts, like the database
DRAFT = ".draft"
DATABASE = b"SQLite format 3\0"  # how each begins


def refuse_database(path: str) -> None:
    """Refuse to write over a SQLite database, or to remove it: that is a slip."""
    if Path(path).is_file():
        with suppress(OSError), Path(path).open("rb") as file:
            if file.read(len(DATABASE)) == DATABASE:
                raise Invalid(f"{path} is a SQLite database, and is not written over: name another file")


def created(path: str) -> TextIO:
    """Make a new file; a device or a pipe is opened, but no link is followed to where nothing is yet."""
    alone = 0 if Path(path).exists() else os.O_EXCL
    return open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags | alone, OWNER_ONLY))


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Write a draft beside a file that takes its name when all is written; drafts of killed processes are removed."""
    for left in target.parent.glob(f".{escape(target.name)}.*{DRAFT}"):
        with suppress(OSError):
            _remove_unlocked(left)
    with _draft(target) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(target)
        except BaseException:
            with suppress(OSError):
                Path(file.name).unlink()
            raise


def _draft(target: Path) -> IO[bytes]:
    """Make a draft and lock it, so that others see that it is being written."""
    while True:
        file = tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", suffix=DRAFT, delete=False)  # noqa: SIM115 the caller closes it
        with suppress(OSError):  # not every file system has locks
            fcntl.flock(file, fcntl.LOCK_EX)
        if Path(file.name).exists():  # nobody removed it before it was locked
            return file
        file.close()


def _remove_unlocked(left: Path) -> None:
    handle = os.open(left, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        left.unlink()
    finally:
        os.close(handle)
