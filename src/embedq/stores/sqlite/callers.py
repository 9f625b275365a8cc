"""Work in a caller's own transaction, on the caller's connection and thread."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from embedq.errors import Invalid
from embedq.ports.caller import on_callers_thread
from embedq.stores.drivers import driver_of, is_for_asyncio
from embedq.stores.sqlite.connection import file_identity
from embedq.stores.sqlite.moments import clock
from embedq.stores.sqlite.transaction import Transaction
from embedq.stores.sqlite.writer import Work

T = TypeVar("T")
DRIVERS = "a sqlite3.Connection, or a Django or SQLAlchemy connection that has one"


async def write_on(path: Path, connection: object, work: Work[T]) -> T:
    """Do this work as part of the caller's transaction, which must be one of this file."""
    return await on_callers_thread(lambda: _write(path, _driver_connection(connection), work))


def _write(path: Path, db: sqlite3.Connection, work: Work[T]) -> T:
    with _plain_rows(db):
        _check_file(path, db)
        with _begun(db):
            transaction = Transaction(db, clock())
            with transaction.savepoint("embedq"):
                answer = work(transaction)
                transaction.flush_words()
            return answer


def _check_file(path: Path, db: sqlite3.Connection) -> None:
    """Refuse a connection to another file: its record would be in no place where anybody looks for it."""
    file_identity(path)  # raises if it is gone
    found = next((file for _, name, file in db.execute("PRAGMA database_list") if name == "main"), "")
    if not found or not Path(found).exists() or not path.samefile(found):
        raise Invalid(f"the connection is to {found or 'a database in memory'}, embedq uses {path}: connect to that")


@contextmanager
def _begun(db: sqlite3.Connection) -> Iterator[None]:
    """Begin a transaction where none is open, and end it where the driver commits each statement by itself.

    It begins with the right to write: one that reads first is refused at once if another process writes meanwhile.
    """
    if db.in_transaction:
        yield
        return
    commits_itself = db.isolation_level is None or getattr(db, "autocommit", None) is True  # the second: Python 3.12
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    if commits_itself:
        db.execute("COMMIT")


@contextmanager
def _plain_rows(db: sqlite3.Connection) -> Iterator[None]:
    """Read rows as tuples, whatever the caller has set."""
    rows, texts = db.row_factory, db.text_factory
    db.row_factory, db.text_factory = None, str
    try:
        yield
    finally:
        db.row_factory, db.text_factory = rows, texts


def _driver_connection(connection: Any) -> sqlite3.Connection:  # noqa: ANN401 of any driver
    """Find the connection of the standard library in that of a framework."""
    found = connection
    match driver_of(connection):
        case "django":
            connection.ensure_connection()
            found = connection.connection
        case "sqlalchemy" if not is_for_asyncio(connection):
            inner = connection if hasattr(connection, "exec_driver_sql") else connection.connection()
            found = inner.connection.dbapi_connection
    if not isinstance(found, sqlite3.Connection):
        raise TypeError(f"connection must be {DRIVERS}, not {type(found).__name__}")
    return found
