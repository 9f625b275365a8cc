"""Write records: texts are made here, everything else is one call of a database function."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, TypeVar

from embedq.errors import NotFound, StoreError
from embedq.exchange import Written
from embedq.model import EmbeddingStatus, JobId, NewRecord, Patch, Receipt, RecordId
from embedq.policy.tenants import anothers
from embedq.policy.texts import Limits, patched
from embedq.stores.columns import read_attributes
from embedq.stores.composing import NONE, Row, compose_all
from embedq.stores.postgres.catalogue import Found, find
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.keys import job_id, new_job_id
from embedq.stores.postgres.moments import text_of

PUT = "SELECT * FROM embedq.put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
FOLD = "SELECT embedq.fold()"
FOLD_EVERY = 256  # puts: so that the rows that record changes of sums do not accumulate

# A record that is about to be patched.
HOLD = """
SELECT text, attributes, tenant FROM embedq.record
WHERE collection = (SELECT c.id FROM embedq.collection c WHERE c.name = $1) AND id = $2 AND valid_to IS NULL
FOR NO KEY UPDATE
"""

CHANGED = "changed"  # the collection is not the one that this process has cached
T = TypeVar("T")
Reader = Callable[[Sequence[Row], Mapping[str, Any]], list[T]]  # reads the answer to a put
STATUSES = (EmbeddingStatus.PENDING, EmbeddingStatus.EMBEDDED, EmbeddingStatus.FAILED)


async def put(
    database: Database,
    name: str,
    records: Sequence[NewRecord],
    limits: Limits,
    now: datetime | None,
    read: Reader[T],
) -> list[T]:
    """Write records and arm their jobs, all or none. Putting the same again changes nothing, so it may be repeated."""

    async def work(db: Connection) -> list[T] | None:
        collection = database.catalogue.recall(name) or await find(db, name)
        database.catalogue.remember(collection)
        collection.check_writable()
        rows = rows_of(collection, records, limits)
        answer = await db.fetchrow(PUT, *_arguments(collection, rows, now))
        if answer["problem"] == CHANGED:
            database.catalogue.forget(name)
            return None
        return read(rows, answer)

    for _ in range(3):
        made = await database.write(work, repeat=True)
        if made is not None:
            return made
    raise StoreError(f"collection {name!r} changes all the time: nothing was written; try again")


async def put_on(
    db: Connection,
    collection: Found,
    records: Sequence[NewRecord],
    limits: Limits,
    now: datetime | None,
    read: Reader[T],
    *,
    notify: bool,
) -> list[T]:
    """Write records in an open transaction, into a collection exactly as it is cached."""
    rows = rows_of(collection, records, limits)
    answer = await db.fetchrow(PUT, *_arguments(collection, rows, now, notify=notify))
    if answer["problem"] == CHANGED:
        raise NotFound(f"collection {collection.name!r} has just been dropped or changed")
    return read(rows, answer)


async def patch(
    database: Database,
    name: str,
    record: RecordId,
    change: Patch,
    limits: Limits,
    now: datetime | None,
    read: Reader[T],
) -> T:
    """Merge a change into a live record."""
    return await database.write(lambda db: _patch(db, name, record, change, limits, now, read), repeat=False)


async def _patch(
    db: Connection,
    name: str,
    record: RecordId,
    change: Patch,
    limits: Limits,
    now: datetime | None,
    read: Reader[T],
) -> T:
    async with db.transaction():
        there = await db.fetchrow(HOLD, name, record)  # first: the collection may change while this waits
        collection = await find(db, name)
        collection.check_writable()
        if there is None or (change.tenant is not None and change.tenant != there["tenant"]):
            raise NotFound(f"no record {record!r} in collection {name!r}")
        attributes = read_attributes(there["attributes"])
        stored = NewRecord(id=record, text=there["text"], attributes=attributes, tenant=there["tenant"])
        made = patched(stored, change, collection.text_from, limits)
        [written] = await put_on(db, collection, [made], limits, now, read, notify=False)
    return written


def rows_of(collection: Found, records: Sequence[NewRecord], limits: Limits) -> list[Row]:
    """Make the texts, sorted by id, so that two writers never deadlock."""
    return sorted(compose_all(collection, records, limits), key=attrgetter("id"))


def _arguments(collection: Found, rows: Sequence[Row], now: datetime | None, *, notify: bool = False) -> list[Any]:
    return [
        collection.name,
        collection.id,
        collection.revision,
        [row.place for row in rows],
        [row.id for row in rows],
        [row.text for row in rows],
        [row.hash for row in rows],
        [None if row.attributes == NONE else row.attributes for row in rows],
        [row.tenant for row in rows],
        [row.priority for row in rows],
        now,
        notify,
    ]


def as_json(collection: Found, rows: Sequence[Row], now: datetime | None) -> str:
    """Write the same call as one text, for any driver."""
    listed = [
        {
            "place": row.place,
            "id": row.id,
            "text": row.text,
            "hash": row.hash.hex(),
            "attributes": json.loads(row.attributes),
            "tenant": row.tenant,
            "priority": row.priority,
        }
        for row in rows
    ]
    return json.dumps({**collection.named(), "now": text_of(now), "records": listed})


def receipts(rows: Sequence[Row], answer: Mapping[str, Any]) -> list[Receipt]:
    """Read the answer to a put, in the order of the request."""
    records = [RecordId(row.id) for row in _in_order(rows, answer)]
    return placed(records, answer) if answer["fresh"] is None else _all_fresh(records, answer)


def written(rows: Sequence[Row], answer: Mapping[str, Any]) -> list[Written]:
    """Read the answer to a put whose jobs are in another database, in the order of the request."""
    ordered = _in_order(rows, answer)
    if answer["fresh"] is not None:
        return [_written(row, EmbeddingStatus.PENDING, same=False) for row in ordered]
    statuses = dict(zip(answer["places"], answer["statuses"], strict=True))
    moved = set(answer["moved"] or ())
    return [_written(row, STATUSES[statuses[row.place]], same=row.id not in moved) for row in ordered]


def _written(row: Row, status: EmbeddingStatus, *, same: bool) -> Written:
    told = RecordId(row.id), row.hash, row.tenant, row.priority, same
    return Written(*told, status is EmbeddingStatus.EMBEDDED, status is EmbeddingStatus.FAILED)


def _in_order(rows: Sequence[Row], answer: Mapping[str, Any]) -> list[Row]:
    """Put rows into the order of the request, unless they were refused."""
    if answer["problem"] is not None:
        raise anothers(json.loads(answer["problem"]))
    return sorted(rows, key=attrgetter("place"))


def placed(records: Sequence[RecordId], answer: Mapping[str, Any]) -> list[Receipt]:
    """Read receipts that come with their positions in the request."""
    found = zip(answer["places"], answer["jobs"], answer["serials"], answer["statuses"], strict=True)
    made = {place: (key, serial, status) for place, key, serial, status in found}
    return [_receipt(record, *made[place]) for place, record in enumerate(records, start=1)]


def _all_fresh(records: Sequence[RecordId], answer: Mapping[str, Any]) -> list[Receipt]:
    space = answer["space"]
    return [
        Receipt(id=record, embedding_status=EmbeddingStatus.PENDING, job_id=new_job_id(number, space))
        for record, number in zip(records, sorted(answer["fresh"]), strict=True)
    ]


def _receipt(record: RecordId, key: int | None, serial: int | None, status: int) -> Receipt:
    job: JobId | None = None if key is None or serial is None else job_id(key, serial)
    return Receipt(id=record, embedding_status=STATUSES[status], job_id=job)
