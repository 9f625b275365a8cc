"""Put and delete records in a caller's own transaction, on a connection of the caller's driver.

No driver but ours is imported: a connection is recognised by the module of its class.
"""

import importlib
import inspect
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from embedq.errors import NotFound
from embedq.model import NewRecord, RecordId
from embedq.policy.texts import Limits
from embedq.stores.postgres.catalogue import find
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.errors import is_undone
from embedq.stores.postgres.putting import CHANGED, Reader, T, as_json, rows_of

PUT = "SELECT embedq.put_json({place})"
DELETE = "SELECT embedq.delete_json({place})"
DRIVERS = "an asyncpg, psycopg or SQLAlchemy connection"


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
    for _ in range(3):
        collection = database.catalogue.recall(name)
        if collection is None:
            collection = await database.run(lambda db: find(db, name), repeat=True)
        database.catalogue.remember(collection)
        collection.check_writable()
        rows = rows_of(collection, records, limits)
        answer = json.loads(await _ask(connection, PUT, as_json(collection, rows, now)))
        if answer["problem"] != CHANGED:
            return read(rows, answer)
        database.catalogue.forget(name)
    raise NotFound(f"no collection {name!r} that this transaction can see: declare it before the transaction begins")


async def delete(
    database: Database,
    connection: object,
    name: str,
    records: Sequence[RecordId],
    which: Mapping[str, Any],
) -> list[RecordId]:
    """Delete records as part of the caller's transaction; return those that existed."""
    collection = await database.run(lambda db: find(db, name), repeat=True)
    collection.check_writable()
    request = {"collection": collection.id, "ids": list(records), **which}
    gone = set(json.loads(await _ask(connection, DELETE, json.dumps(request))))
    return [record for record in dict.fromkeys(records) if record in gone]


async def _ask(connection: Any, call: str, request: str) -> str:  # noqa: ANN401 of any driver
    """Call the function through the driver's API; its errors are passed on, for the caller's own retries."""
    try:
        return await _call_by_driver(connection, call, request)
    except Exception as error:
        if is_undone(error) or is_undone(getattr(error, "orig", error)):  # SQLAlchemy wraps its driver's
            error.add_note("Something has changed since this transaction began: roll it back, and repeat it.")
        raise


async def _call_by_driver(connection: Any, call: str, request: str) -> str:  # noqa: ANN401 of any driver
    match type(connection).__module__.partition(".")[0]:
        case "asyncpg":
            return str(await connection.fetchval(call.format(place="$1"), request))
        case "psycopg":
            plain = importlib.import_module("psycopg.rows").tuple_row  # whatever row factory the caller has set
            cursor = await _settled(connection.cursor(row_factory=plain).execute(call.format(place="%s"), (request,)))
            return str((await _settled(cursor.fetchone()))[0])
        case "sqlalchemy":
            if not hasattr(connection, "exec_driver_sql"):
                raise TypeError(f"connection must be {DRIVERS}: of a session, that is session.connection()")
            result = await _settled(connection.exec_driver_sql(*_in_style(connection, call, request)))
            return str(result.scalar_one())
        case other:
            raise TypeError(f"connection must be {DRIVERS}, not one of {other}")


def _in_style(connection: Any, call: str, request: str) -> tuple[str, tuple[str]]:  # noqa: ANN401 of any driver
    """Write the call in the parameter style of the driver under SQLAlchemy."""
    style = connection.dialect.paramstyle
    return call.format(place="$1" if style == "numeric_dollar" else "%s"), (request,)


async def _settled(answer: Any) -> Any:  # noqa: ANN401 of any driver
    """Await the result if the driver is asynchronous."""
    return await answer if inspect.isawaitable(answer) else answer
