"""Putting records in a caller's own transaction, on a connection of whatever driver the caller uses.

No driver but ours is imported: a connection is known by the module its class comes from.
"""

import inspect
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from embedq.errors import NotFound
from embedq.model import NewRecord, Receipt
from embedq.policy.texts import Limits
from embedq.stores.postgres.catalogue import Found, find
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.putting import CHANGED, as_json, compose_all, receipts

CALL = "SELECT embedq.put_json({place})"
DRIVERS = "an asyncpg, psycopg or SQLAlchemy connection"


async def put(
    database: Database,
    connection: object,
    name: str,
    records: Sequence[NewRecord],
    limits: Limits,
    now: datetime | None,
) -> list[Receipt]:
    """Write records as part of the caller's transaction; workers hear of them when it is committed."""
    for _ in range(3):
        collection = database.catalogue.recall(name)
        if collection is None:
            collection = await database.run(lambda db: find(db, name), repeat=True)
        database.catalogue.remember(collection)
        answer = await _call(connection, collection, records, limits, now)
        if answer["problem"] != CHANGED:
            return receipts(records, answer)
        database.catalogue.forget(name)
    raise NotFound(f"no collection {name!r} that this transaction can see: declare it before the transaction begins")


async def _call(
    connection: Any,  # noqa: ANN401 of any driver
    collection: Found,
    records: Sequence[NewRecord],
    limits: Limits,
    now: datetime | None,
) -> Mapping[str, Any]:
    request = as_json(collection, compose_all(collection, records, limits), now)
    answer = json.loads(await _ask(connection, request))
    return {**answer, "problem": answer["problem"]}


async def _ask(connection: Any, request: str) -> str:  # noqa: ANN401 of any driver
    """Call the function by the driver's own manners."""
    match type(connection).__module__.partition(".")[0]:
        case "asyncpg":
            return str(await connection.fetchval(CALL.format(place="$1"), request))
        case "psycopg":
            cursor = await _settled(connection.execute(CALL.format(place="%s"), (request,)))
            return str((await _settled(cursor.fetchone()))[0])
        case "sqlalchemy":
            result = await _settled(connection.exec_driver_sql(*_in_style(connection, request)))
            return str(result.scalar_one())
        case other:
            raise TypeError(f"connection must be {DRIVERS}, not one of {other}")


def _in_style(connection: Any, request: str) -> tuple[str, tuple[str]]:  # noqa: ANN401 of any driver
    """Write the call as the driver under SQLAlchemy wants it."""
    style = connection.dialect.paramstyle
    return CALL.format(place="$1" if style == "numeric_dollar" else "%s"), (request,)


async def _settled(answer: Any) -> Any:  # noqa: ANN401 of any driver
    """Wait for an answer where the driver is asynchronous."""
    return await answer if inspect.isawaitable(answer) else answer
