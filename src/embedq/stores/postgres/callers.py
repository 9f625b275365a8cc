"""Put and delete records in a caller's own transaction, on a connection of the caller's driver."""

import importlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from embedq.errors import NotFound
from embedq.model import NewRecord, RecordId
from embedq.policy.texts import Limits
from embedq.ports.caller import on_callers_thread, refuse_without_asyncio
from embedq.stores.drivers import driver_of, is_for_asyncio
from embedq.stores.postgres.catalogue import Found, find
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.errors import is_undone
from embedq.stores.postgres.putting import CHANGED, Reader, T, as_json, rows_of

PUT = "SELECT embedq.put_json({place})"
DELETE = "SELECT embedq.delete_json({place})"
DRIVERS = "an asyncpg, psycopg, SQLAlchemy or Django connection"


async def put(
    database: Database,
    connection: object,
    name: str,
    records: Sequence[NewRecord],
    limits: Limits,
    now: datetime | None,
    read: Reader[T],
) -> list[T]:
    """Write records as part of the caller's transaction; workers are notified when it commits."""
    async for collection in _as_seen(database, name):
        rows = rows_of(collection, records, limits)
        answer = json.loads(await _ask(connection, PUT, as_json(collection, rows, now)))
        if answer["problem"] != CHANGED:
            return read(rows, answer)
    raise _unseen(name)


async def delete(
    database: Database,
    connection: object,
    name: str,
    records: Sequence[RecordId],
    which: Mapping[str, Any],
) -> list[RecordId]:
    """Delete records as part of the caller's transaction; return those that existed."""
    async for collection in _as_seen(database, name):
        request = {**collection.named(), "ids": list(records), **which}
        answer = json.loads(await _ask(connection, DELETE, json.dumps(request)))
        if answer is not None:
            gone = set(answer)
            return [record for record in dict.fromkeys(records) if record in gone]
    raise _unseen(name)


async def _as_seen(database: Database, name: str) -> AsyncIterator[Found]:
    """Yield a collection as it was last read, then as it is: the caller's connection may see another one."""
    for _ in range(3):
        collection = database.catalogue.recall(name)
        if collection is None:
            collection = await database.run(lambda db: find(db, name), repeat=True)
        database.catalogue.remember(collection)
        collection.check_writable()
        yield collection
        database.catalogue.forget(name)


def _unseen(name: str) -> NotFound:
    return NotFound(
        f"no collection {name!r} that this transaction can see: declare it before the transaction begins, and hand "
        "over a connection to the same database"
    )


async def _ask(connection: object, call: str, request: str) -> str:
    """Call the function through the driver's API; its errors are passed on, for the caller's own retries."""
    try:
        if is_for_asyncio(connection):
            refuse_without_asyncio()
            return str(await _call_async(connection, call, request))
        return str(await on_callers_thread(lambda: _call(connection, call, request)))
    except Exception as error:
        causes = (error, getattr(error, "orig", None), error.__cause__)  # SQLAlchemy and Django wrap their driver's
        if any(cause is not None and is_undone(cause) for cause in causes):
            error.add_note("Something has changed since this transaction began: roll it back, and repeat it.")
        raise


async def _call_async(connection: Any, call: str, request: str) -> Any:  # noqa: ANN401 of any driver
    match driver_of(connection):
        case "asyncpg":
            return await connection.fetchval(call.format(place="$1"), request)
        case "psycopg":
            cursor = connection.cursor(row_factory=_tuples())
            await cursor.execute(call.format(place="%s"), (request,))
            return (await cursor.fetchone())[0]
        case "sqlalchemy":
            inner = connection if hasattr(connection, "exec_driver_sql") else await connection.connection()
            return (await inner.exec_driver_sql(*_in_style(inner, call, request))).scalar_one()
        case other:
            raise _unknown(other)


def _call(connection: Any, call: str, request: str) -> Any:  # noqa: ANN401 of any driver
    match driver_of(connection):
        case "psycopg":
            cursor = connection.cursor(row_factory=_tuples())
            return cursor.execute(call.format(place="%s"), (request,)).fetchone()[0]
        case "django":
            with connection.cursor() as cursor:
                cursor.execute(call.format(place="%s"), [request])
                return cursor.fetchone()[0]
        case "sqlalchemy":
            inner = connection if hasattr(connection, "exec_driver_sql") else connection.connection()
            return inner.exec_driver_sql(*_in_style(inner, call, request)).scalar_one()
        case other:
            raise _unknown(other)


def _tuples() -> object:
    """Return the row factory of tuples: the caller may have set another."""
    return importlib.import_module("psycopg.rows").tuple_row


def _in_style(connection: Any, call: str, request: str) -> tuple[str, tuple[str]]:  # noqa: ANN401 of any driver
    """Write the call in the parameter style of the driver under SQLAlchemy."""
    style = connection.dialect.paramstyle
    return call.format(place="$1" if style == "numeric_dollar" else "%s"), (request,)


def _unknown(driver: str) -> TypeError:
    return TypeError(f"connection must be {DRIVERS}, not one of {driver}")
