"""Work in a caller's own transaction, on the caller's connection and thread."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from embedq.ports.caller import on_callers_thread
from embedq.stores.drivers import driver_of, is_for_asyncio
from embedq.stores.sqlite.moments import clock
from embedq.stores.sqlite.transaction import Transaction
from embedq.stores.sqlite.writer import Work

T = TypeVar("T")
DRIVERS = "a sqlite3.Connection, or a Django or SQLAlchemy connection that has one"


async def write_on(connection: object, work: Work[T]) -> T:
    """Do this work as part of the caller's transaction."""
    return await on_callers_thread(lambda: _write(_driver_connection(connection), work))


def _write(db: sqlite3.Connection, work: Work[T]) -> T:
    _begin(db)
    transaction = Transaction(db, clock())
    with _plain_rows(db), transaction.savepoint("embedq"):
        answer = work(transaction)
        transaction.flush_words()
    return answer


def _begin(db: sqlite3.Connection) -> None:
    """Begin a transaction where the driver would before a write; without one, our savepoint's end would commit."""
    commits_itself = (
        db.isolation_level is None or getattr(db, "autocommit", None) is True
    )  # the second from Python 3.12
    if not commits_itself and not db.in_transaction:
        db.execute(f"BEGIN {db.isolation_level}")


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
