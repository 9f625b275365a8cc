"""Writing records: texts are made here, everything else is one call of the database's own function."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from embedq.errors import Conflict, Invalid, NotFound, StoreError, TooLarge
from embedq.model import ContentHash, EmbeddingStatus, JobId, NewRecord, Patch, Receipt, RecordId
from embedq.policy.texts import Limits, check_attributes, check_text, compose, hash_of, written
from embedq.stores.postgres.catalogue import Found, find
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.keys import job_id, new_job_id
from embedq.stores.postgres.moments import text_of

PUT = "SELECT * FROM embedq.put($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"
PUT_JSON = "SELECT embedq.put_json({place})"
FOLD = "SELECT embedq.fold()"
FOLD_EVERY = 256  # puts: the rows that changes of sums are noted in do not pile up

# A record that is about to be patched.
HOLD = """
SELECT text, attributes, tenant FROM embedq.record
WHERE collection = $1 AND id = $2 AND valid_to IS NULL FOR NO KEY UPDATE
"""

CHANGED = "changed"  # the collection is not the one this process remembers
STATUSES = (EmbeddingStatus.PENDING, EmbeddingStatus.EMBEDDED, EmbeddingStatus.FAILED)


class Row(NamedTuple):
    """A record as it is to be written."""

    place: int  # in the request, from 1
    id: str
    text: str
    hash: ContentHash
    attributes: str | None
    tenant: str | None
    priority: int


async def put(
    database: Database, name: str, records: Sequence[NewRecord], limits: Limits, now: datetime | None
) -> list[Receipt]:
    """Write records and arm their jobs, all or none. Putting the same again changes nothing, so it may be repeated."""

    async def work(db: Connection) -> list[Receipt] | None:
        collection = database.catalogue.recall(name) or await find(db, name)
        database.catalogue.remember(collection)
        answer = await db.fetchrow(PUT, *_arguments(collection, compose_all(collection, records, limits), now))
        if answer["problem"] == CHANGED:
            database.catalogue.forget(name)
            return None
        return receipts(records, answer)

    for _ in range(3):
        made = await database.run(work, repeat=True)
        if made is not None:
            return made
    raise StoreError(f"collection {name!r} changes all the time: nothing was written; try again")


async def put_on(
    db: Connection,
    collection: Found,
    records: Sequence[NewRecord],
    limits: Limits,
    now: datetime | None,
    *,
    notify: bool,
) -> list[Receipt]:
    """Write records in a transaction that is under way, into a collection just as it is known."""
    rows = compose_all(collection, records, limits)
    answer = await db.fetchrow(PUT, *_arguments(collection, rows, now, notify=notify))
    if answer["problem"] == CHANGED:
        raise NotFound(f"collection {collection.name!r} has just been dropped or changed")
    return receipts(records, answer)


async def patch(
    database: Database, name: str, record: RecordId, change: Patch, limits: Limits, now: datetime | None
) -> Receipt:
    """Merge a change into a live record."""
    async with database.transaction() as db:
        collection = await find(db, name)
        there = await db.fetchrow(HOLD, collection.id, record)
        if there is None or (change.tenant is not None and change.tenant != there["tenant"]):
            raise NotFound(f"no record {record!r} in collection {name!r}")
        merged = json.loads(there["attributes"]) | dict(change.attributes or {})
        attributes = {key: value for key, value in merged.items() if value is not None}
        text = there["text"] if change.text is None and collection.text_from is None else change.text
        made = NewRecord(id=record, text=text, attributes=attributes, priority=change.priority, tenant=there["tenant"])
        [receipt] = await put_on(db, collection, [made], limits, now, notify=False)
    return receipt


def compose_all(collection: Found, records: Sequence[NewRecord], limits: Limits) -> list[Row]:
    """Make the texts; name every record that has none. Sorted by id, so that two writers never wait in a circle."""
    rows, problems = [], {}
    seen: set[str] = set()
    for position, record in enumerate(records):
        attributes: Mapping[str, Any] = record.attributes or {}
        try:
            if record.id in seen:
                raise Invalid("the id stands here twice: send each id once")  # noqa: TRY301 all problems are gathered
            seen.add(record.id)
            text = compose(collection.text_from, record.text, attributes)
            if collection.text_from is not None or record.attributes is not None:
                check_text(text, limits)
                check_attributes(attributes, limits)
        except (Invalid, TooLarge) as problem:
            problems[position] = str(problem)
            continue
        priority = collection.priority if record.priority is None else int(record.priority)
        noted = written(attributes) if attributes else None
        rows.append(Row(position + 1, record.id, text, hash_of(text), noted, record.tenant, priority))
    if problems:
        raise Invalid(
            f"{len(problems)} of {len(records)} records are refused, so none is stored: "
            + "; ".join(f"[{position}] {what}" for position, what in list(problems.items())[:5]),
            problems=problems,
        )
    return sorted(rows, key=lambda row: row.id)


def _arguments(collection: Found, rows: Sequence[Row], now: datetime | None, *, notify: bool = False) -> list[Any]:
    return [
        collection.name,
        collection.id,
        collection.revision,
        [row.place for row in rows],
        [row.id for row in rows],
        [row.text for row in rows],
        [row.hash for row in rows],
        [row.attributes for row in rows],
        [row.tenant for row in rows],
        [row.priority for row in rows],
        now,
        notify,
    ]


def as_json(collection: Found, rows: Sequence[Row], now: datetime | None) -> str:
    """Write the same call as one text, for drivers that we do not know."""
    listed = [
        {
            "place": row.place,
            "id": row.id,
            "text": row.text,
            "hash": row.hash.hex(),
            "attributes": None if row.attributes is None else json.loads(row.attributes),
            "tenant": row.tenant,
            "priority": row.priority,
        }
        for row in rows
    ]
    known = {"name": collection.name, "collection": collection.id, "revision": collection.revision}
    return json.dumps({**known, "now": text_of(now), "records": listed}, ensure_ascii=False)


def receipts(records: Sequence[NewRecord], answer: Mapping[str, Any]) -> list[Receipt]:
    """Read the answer to a put, in the order of the records."""
    if answer["problem"] is not None:
        foreign = json.loads(answer["problem"])
        raise Conflict(f"{len(foreign)} ids belong to another tenant, so nothing is stored: {foreign[:5]}")
    if answer["fresh"] is not None:
        return _all_fresh(records, answer)
    return placed([record.id for record in records], answer)


def placed(records: Sequence[RecordId], answer: Mapping[str, Any]) -> list[Receipt]:
    """Read receipts that come with their places in the request."""
    found = zip(answer["places"], answer["jobs"], answer["serials"], answer["statuses"], strict=True)
    made = {place: (key, serial, status) for place, key, serial, status in found}
    return [_receipt(record, *made[place]) for place, record in enumerate(records, start=1)]


def _all_fresh(records: Sequence[NewRecord], answer: Mapping[str, Any]) -> list[Receipt]:
    space = answer["space"]
    return [
        Receipt(id=record.id, embedding_status=EmbeddingStatus.PENDING, job_id=new_job_id(number, space))
        for record, number in zip(records, sorted(answer["fresh"]), strict=True)
    ]


def _receipt(record: RecordId, key: int | None, serial: int | None, status: int) -> Receipt:
    job: JobId | None = None if key is None or serial is None else job_id(key, serial)
    return Receipt(id=record, embedding_status=STATUSES[status], job_id=job)
