"""A queue whose records are in another database: it stores their names, and what the corpus last reported of them."""

import contextlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from embedq.errors import Conflict, NotFound
from embedq.exchange import Arm, Cause, JobState, Queued, Waiting
from embedq.model import Collection, ContentHash, JobFilter, JobId, JobStatus, Reason, RecordId
from embedq.policy import jobs as rules
from embedq.stores.columns import read_status, write_retry
from embedq.stores.postgres import collections, keeping, reading
from embedq.stores.postgres.arming import JobChange, arm, rises
from embedq.stores.postgres.catalogue import FIND, Found, find, made
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.keys import SPACE_BITS, job_id, parse

DECLARED = """
SELECT s.provider, s.model, s.asked, s.version, s.dimensions, c.priority, c.retry
FROM embedq.collection c JOIN embedq.space s ON s.id = c.space WHERE c.name = $1
"""
NAME = "SELECT * FROM embedq.name_records($1, $2, $3, $4, $5, $6, $7)"
STATES = f"""
SELECT x.id, j.id AS job, j.serial, j.status, j.reason, j.hash FROM embedq.record x
JOIN embedq.job j ON j.id = (x.rid << {SPACE_BITS}) | $2::bigint WHERE x.collection = $1 AND x.id = ANY ($3)
"""
NOTE_TEXT = "SELECT embedq.note_text($1, $2, $3, $4)"
NAMES = """
SELECT c.name, x.id FROM embedq.record x JOIN embedq.collection c ON c.id = x.collection
WHERE x.rid = ANY ($1) AND c.name IS NOT NULL
"""


async def declare(database: Database, collection: Collection) -> None:
    """Store a collection. If its space changed, it is another collection: the old one's jobs are removed.

    One that is stored already is only read, which every role may.
    """
    if await _is_declared(database, collection):
        return
    wanted = replace(collection.declaration, text_from=None)
    try:
        await collections.declare(database, wanted)
    except Conflict:
        await collections.drop(database, wanted.name)
        await collections.declare(database, wanted)
    if collection.space.dimensions is not None:
        await collections.learn(database, collection.space.id, collection.space.dimensions)


async def _is_declared(database: Database, collection: Collection) -> bool:
    embedder, space, wanted = collection.space.embedder, collection.space, collection.declaration
    row = await database.fetchrow(DECLARED, wanted.name)
    return row is not None and tuple(row) == (
        *(embedder.provider, embedder.model, embedder.dimensions or 0, space.version),
        *(space.dimensions, int(wanted.priority), write_retry(wanted.retry)),
    )


async def forget(database: Database, name: str) -> None:
    """Free a collection's name, if it exists."""
    with contextlib.suppress(NotFound):
        await collections.drop(database, name)


async def enqueue(db: Connection, name: str, arms: Sequence[Arm], now: datetime | None) -> list[Queued]:
    """Store what the corpus reports of these records, and arm the jobs that the rules say."""
    async with db.transaction():
        collection = await find(db, name)
        asks = {ask.id: ask for ask in arms}
        rows = await _name(db, collection, list(asks.values()), now)
        armed = {id_ for id_, ask in asks.items() if _is_armed(ask, rows[id_])}
        changes = _changes(collection, asks.values(), rows, armed)
        jobs: dict[int, JobId | None] = {}
        for forced in (False, True):
            some = [change for id_, change in changes.items() if (asks[id_].forced and id_ in armed) is forced]
            jobs |= await arm(db, collection.id, collection.space, some, now, forced=forced)
    return [Queued(jobs.get(rows[ask.id]["rid"]) or _job(rows[ask.id]), armed=ask.id in armed) for ask in arms]


async def states(db: Connection, name: str, records: Sequence[RecordId]) -> dict[RecordId, JobState]:
    """Return the states of these records' jobs; an unknown collection has none."""
    row = await db.fetchrow(FIND, name)
    if row is None:
        return {}
    collection = made(row)
    rows = await db.fetch(STATES, collection.id, collection.space, list(records))
    return {RecordId(row["id"]): _state(row) for row in rows}


async def withdraw(db: Connection, name: str, records: Sequence[RecordId], now: datetime | None) -> None:
    """Cancel the open jobs of records that were deleted."""
    row = await db.fetchrow(FIND, name)
    if row is not None:
        await db.fetchval(keeping.DELETE_RECORDS, row["id"], row["space"], list(records), False, now, None)  # noqa: FBT003 by place


async def cancel(
    db: Connection, job: JobId, current: ContentHash | None, tenant: str | None, now: datetime | None
) -> None:
    """Cancel an open job for its record's current text."""
    named = parse(job)
    if named is None:
        return
    async with db.transaction():
        if current is not None:
            await db.execute(NOTE_TEXT, *named, current, tenant)
        await keeping.cancel(db, job, tenant, now)


async def revive(
    db: Connection, which: JobFilter, job: JobId | None, limit: int, now: datetime | None
) -> list[tuple[str, RecordId]]:
    """Arm dead letters again, or one failed or cancelled job; return their records."""
    return await _names(db, await keeping.revived(db, which, job, limit, now))


async def replay_quota(
    db: Connection, older_than: timedelta, limit: int, now: datetime | None
) -> list[tuple[str, RecordId]]:
    """Retry what a provider's quota stopped; return the records."""
    return await _names(db, await keeping.replayed_quota(db, older_than, limit, now))


async def _names(db: Connection, rids: Sequence[int]) -> list[tuple[str, RecordId]]:
    return [(row["name"], RecordId(row["id"])) for row in await db.fetch(NAMES, list(rids))] if rids else []


async def waiting(db: Connection, name: str, now: datetime | None) -> Waiting:
    """Return how many jobs are open, and how long the oldest has waited."""
    if await db.fetchrow(FIND, name) is None:
        return Waiting(0, None)
    _, found = await reading.show(db, name, [], None, now)
    return Waiting(found.pending, found.oldest_pending)


async def _name(db: Connection, collection: Found, asks: Sequence[Arm], now: datetime | None) -> dict[RecordId, Any]:
    """Store records by name, sorted, so that two writers never deadlock; return the states of their jobs."""
    placed = sorted((ask.id, place) for place, ask in enumerate(asks))
    ordered = [asks[place] for _, place in placed]
    columns = [place for _, place in placed], [ask.hash for ask in ordered], [ask.tenant for ask in ordered]
    ids = [ask.id for ask in ordered]
    rows = await db.fetch(NAME, collection.id, collection.space, ids, *columns, now)
    return dict(zip(ids, rows, strict=True))


def _changes(
    collection: Found, asks: Iterable[Arm], rows: Mapping[RecordId, Any], armed: Container[RecordId]
) -> dict[RecordId, JobChange]:
    """Decide about the jobs of records whose rows are locked.

    An open job keeps the highest priority that was requested explicitly.
    """
    changes: dict[RecordId, JobChange] = {}
    for ask in asks:
        row, lane = rows[ask.id], _lane(collection, ask)
        if ask.id in armed:
            changes[ask.id] = JobChange(row, lane)
        elif ask.cause is not Cause.RECONCILE and rises(row, lane):
            changes[ask.id] = JobChange(row, lane, arms=False)
    return changes


def _lane(collection: Found, ask: Arm) -> int:
    return collection.priority if ask.priority is None else ask.priority


def _is_armed(ask: Arm, row: Any) -> bool:  # noqa: ANN401 a row
    reason = None if row["reason"] is None else Reason(row["reason"])
    return rules.arms(ask, read_status(row["status"]), reason=reason, same_text=row["hash"] == ask.hash)


def _job(row: Any) -> JobId | None:  # noqa: ANN401 a row
    return None if row["job"] is None else job_id(row["job"], row["serial"])


def _state(row: Any) -> JobState:  # noqa: ANN401 a row
    status = read_status(row["status"]) or JobStatus.PENDING
    reason = None if row["reason"] is None else Reason(row["reason"])
    return JobState(job_id(row["job"], row["serial"]), status, reason, ContentHash(row["hash"]))
