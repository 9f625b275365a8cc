"""How this store opens its file, and what SQLite's errors mean."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from embedq.errors import (
    EmbedqError,
    Invalid,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnusable,
    TooLarge,
)
from embedq.policy.instants import microseconds
from embedq.stores.sqlite.filtering import INSTANT

PRAGMAS = (
    "PRAGMA busy_timeout = 30000",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 0",  # the writer checkpoints itself, after delivering its answers
    "PRAGMA cache_size = -65536",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA secure_delete = FAST",
)

UNTAKEN = (OverflowError, UnicodeEncodeError)  # a value that the driver refused before it reached SQLite

GRAVE = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_BUSY,
    }
)


def connect(path: Path, *, read_only: bool = False, create: bool = False) -> sqlite3.Connection:
    """Open a connection with our pragmas and manual transactions. A missing file is not created again."""
    place = f"file:{quote(str(path))}?mode={'rwc' if create else 'rw'}"
    with speaking(path):
        db = sqlite3.connect(place, uri=True, isolation_level=None, check_same_thread=False, cached_statements=256)
        try:
            for pragma in PRAGMAS:
                db.execute(pragma)
            db.create_function(INSTANT, 1, microseconds, deterministic=True)
            if read_only:
                db.execute("PRAGMA cache_size = -8192")
                db.execute("PRAGMA query_only = 1")
        except BaseException:
            db.close()
            raise
        return db


@contextmanager
def speaking(path: Path) -> Iterator[None]:
    """Translate SQLite's errors."""
    try:
        yield
    except (sqlite3.Error, *UNTAKEN) as error:
        raise translated(error, path) from error


def translated(error: Exception, path: Path) -> EmbedqError:  # noqa: PLR0911 one line per kind
    """Translate an error of SQLite, or of a value that its driver refuses, into one of ours."""
    if isinstance(error, UNTAKEN):
        return Invalid(f"a value is none that SQLite can take: {error}")
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    match code:
        case sqlite3.SQLITE_FULL:
            return StoreFull(
                f"the disk of {path} is full: nothing was written; free some space, work goes on by itself"
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return StoreReadOnly(f"{path} cannot be written to: check its permissions and those of its folder")
        case sqlite3.SQLITE_NOTADB:
            return StoreUnusable(f"{path} is not a SQLite database: name another file")
        case sqlite3.SQLITE_CORRUPT:
            return StoreUnusable(f"{path} is damaged ({error}): stop all processes and restore it, or run `.recover`")
        case sqlite3.SQLITE_CANTOPEN:
            return StoreUnusable(f"{path} cannot be opened: does its folder exist, and may this user write there?")
        case sqlite3.SQLITE_IOERR:
            return StoreError(f"reading or writing {path} failed ({error}): nothing was written; check the disk")
        case sqlite3.SQLITE_TOOBIG:
            return TooLarge(f"what was asked for is more than SQLite can take at once ({error}): send less")
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(
                f"an open transaction elsewhere keeps {path} locked: nothing was written; try again when it has ended"
            )
        case _:
            return StoreError(f"{path}: {error}")


def is_grave(error: sqlite3.Error) -> bool:
    """Say whether an error concerns the whole database and not one statement."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in GRAVE


def file_identity(path: Path) -> tuple[int, int]:
    """Identify the file, to detect a replacement. Raise if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 called at every commit: Path.stat takes five times as long
    except OSError as error:
        raise StoreUnusable(
            f"{path} is gone from its place: nothing more is written; put it back and run `embedq resume`, "
            "or restart to begin anew"
        ) from error
    return found.st_dev, found.st_ino
