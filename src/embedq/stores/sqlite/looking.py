"""Looks into a file that may be anybody's: no byte of it changes, and no file is left beside it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from embedq.errors import NotFound, StoreUnusable
from embedq.stores.sqlite.connection import speaking
from embedq.stores.sqlite.schema import installed_version, migrations

HEADER_BYTES = 20
MAGIC = b"SQLite format 3\0"
IN_WAL_MODE = b"\2"  # its last byte: the version that a reader must know


def require(path: Path) -> None:
    """Refuse a file that lacks this version's schema: a caller that only reads must not change it."""
    header, newest = _header(path), migrations()[-1][0]
    if not header:
        raise NotFound(f"{path} is an empty file: `embedq init` makes it a database, or name another")
    if not header.startswith(MAGIC):
        raise StoreUnusable(f"{path} is not a SQLite database: name another file")
    with speaking(path), closing(_open(path, header)) as db:
        found = installed_version(db, path, newest=newest)
    if found == 0:
        raise NotFound(f"{path} has no embedq in it: `embedq init` installs it there, or name another database")
    if found < newest:
        raise StoreUnusable(f"{path} has schema {found}, this embedq needs {newest}: run `embedq init`")


def _header(path: Path) -> bytes:
    if not path.is_file():  # opening a pipe would wait for its other end
        raise StoreUnusable(f"{path} is no file: name one")
    try:
        with path.open("rb") as file:
            return file.read(HEADER_BYTES)
    except OSError as error:
        raise StoreUnusable(f"{path} cannot be read ({error.strerror}): check its permissions") from error


def _open(path: Path, header: bytes) -> sqlite3.Connection:
    """Open it for reading. In WAL mode SQLite would make its log and the log's index, if they are not both there."""
    place = os.path.realpath(path)
    in_use = os.path.exists(f"{place}-wal") and os.path.exists(f"{place}-shm")  # noqa: PTH110 no Path is needed
    alone = header.endswith(IN_WAL_MODE) and not in_use
    how = "immutable=1" if alone else "readonly_shm=1"
    return sqlite3.connect(f"file:{quote(place)}?mode=ro&{how}", uri=True, isolation_level=None)
