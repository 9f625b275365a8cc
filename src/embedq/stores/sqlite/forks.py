"""Files that were open when this process was forked from another, and cannot be opened here.

SQLite keeps a process's file locks in its memory, which a fork copies: a connection that is opened in the child
believes that it holds them, takes none, and loses what it writes.
"""

import os
from collections import Counter
from pathlib import Path

from embedq.errors import StoreUnusable

FileId = tuple[int, int]
_open: Counter[FileId] = Counter()
_inherited: set[FileId] = set()


def refuse_inherited(path: Path) -> None:
    """Refuse a file that the parent of this process had open at the fork."""
    if path.exists() and _id(path) in _inherited:
        raise StoreUnusable(
            f"{path} was open when this process was forked, and SQLite would lose what is written here: close it "
            "before the fork, or start processes by spawn"
        )


def note_open(path: Path) -> FileId:
    """Note that this process has a file open."""
    found = _id(path)
    _open[found] += 1
    return found


def note_closed(found: FileId) -> None:
    """Note that it is closed."""
    _open[found] -= 1


def _id(path: Path) -> FileId:
    found = path.stat()
    return found.st_dev, found.st_ino


def _forked() -> None:
    _inherited.update(found for found, times in _open.items() if times > 0)
    _open.clear()


os.register_at_fork(after_in_child=_forked)
