"""Rules that stay in the database for speed say what `policy.jobs` says, over all combinations of facts."""

from datetime import timedelta
from hashlib import sha256
from itertools import product
from unittest.mock import AsyncMock

import asyncpg
import pytest

from embedq.model import NewRecord, RecordId
from embedq.policy import jobs
from embedq.stores.columns import read_status
from embedq.stores.postgres import PostgresStore, rescuing, transitions
from embedq.stores.postgres.keys import SOLO_LANES
from embedq.testing.stores.stage import NOON, NOTES, done, take_one, vector_of, write

MILLISECOND = timedelta(milliseconds=1)
MINUTE = timedelta(minutes=1)
SPANS = (-MINUTE, -jobs.SET_BACK - MILLISECOND, -jobs.SET_BACK, timedelta(0), MILLISECOND, MINUTE)
STATUSES = (None, 0, 2, 3, 4)

LEASE = """
INSERT INTO embedq.lease (token, since, renewed, until, worker, space, queued, fresh, nonce, jobs, arms)
VALUES ($1, $2, $2, $3, $4, 1, $2, false, $1, '{}', '{}')
"""
WORKER = "INSERT INTO embedq.worker (name, started_at, seen_at) VALUES ($1, now(), now()) RETURNING id"
WAITING = "INSERT INTO embedq.later (due, since, space, collection, key, job) VALUES ($1, $2, 4000, 1, 0, $3)"
CLOSE = "UPDATE embedq.job SET status = $2 WHERE id >> 12 = $1"
NO_JOB = "DELETE FROM embedq.job WHERE id >> 12 = $1"
OUT_OF_LINE = "DELETE FROM embedq.ready WHERE job >> 12 = $1"
DELETED = "UPDATE embedq.record SET valid_to = now() WHERE rid = $1"
STORED = """
INSERT INTO embedq.vector_1 SELECT rid, collection, false, $2, $3::text::vector FROM embedq.record WHERE rid = $1
"""
CHANGE = """
UPDATE embedq.job SET status = $1, arms = arms + $2::boolean::int,
  hash = CASE WHEN $3::boolean THEN sha256('edited') ELSE hash END
"""
ARMS = "SELECT x.id, j.arms FROM embedq.record x LEFT JOIN embedq.job j ON j.id = (x.rid << 12) | 1"


async def rid_of(db: asyncpg.Connection, record: str) -> int:
    return int(await db.fetchval("SELECT rid FROM embedq.record WHERE id = $1", record))


async def set_up(
    db: asyncpg.Connection, record: str, status: int | None, *, live: bool, vector_of_text: str | None
) -> None:
    """Give a record that was put a job, a life and a vector."""
    rid = await rid_of(db, record)
    if status != 0:
        await db.execute(OUT_OF_LINE, rid)
        await db.execute(NO_JOB, rid) if status is None else await db.execute(CLOSE, rid, status)
    if not live:
        await db.execute(DELETED, rid)
    if vector_of_text is not None:
        await db.execute(STORED, rid, sha256(vector_of_text.encode()).digest(), str(vector_of("x").tolist()))
        await db.execute("DELETE FROM embedq.missing WHERE record = $1", rid)


@pytest.mark.parametrize("bound", [None, timedelta(0), MINUTE])
async def test_leases_are_lost_as_the_rules_say(
    store: PostgresStore, db: asyncpg.Connection, bound: timedelta | None
) -> None:
    """Rule 8: ran out, renewed in the future, not renewed for a bound, or of a dead worker."""
    del store
    workers = [await db.fetchval(WORKER, name) for name in ("dead", "well")]
    cases = list(product(SPANS, SPANS, (0, 1)))
    for token, (left, unrenewed, worker) in enumerate(cases):
        await db.execute(LEASE, token, NOON - unrenewed, NOON + left, workers[worker])

    lost = rescuing.LOST.replace(f"LIMIT {rescuing.LEASES}", "")
    rows = await db.fetch(lost, NOON, -1, jobs.SET_BACK, bound, ["dead"])

    told = [jobs.is_lost(left=left, unrenewed=since, dead=worker == 0, bound=bound) for left, since, worker in cases]
    assert {row["token"] for row in rows} == {token for token, is_lost in enumerate(told) if is_lost}


async def test_waiting_jobs_are_due_as_the_rules_say(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Rule 4: their moment has come, or their wait begins in the future."""
    del store
    cases = list(product(SPANS, SPANS))
    for job, (left, waited) in enumerate(cases):
        await db.execute(WAITING, NOON + left, NOON - waited, job)

    await db.execute("SELECT embedq.promote($1)", NOON)

    left_over = {row["job"] for row in await db.fetch("SELECT job FROM embedq.later")}
    told = [jobs.is_due(left=left, waited=waited) for left, waited in cases]
    assert left_over == {job for job, is_due in enumerate(told) if not is_due}


async def test_jobs_that_crashed_workers_stand_behind_all_others(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Rule 8: from two crashes on, a job is leased alone."""
    del store
    for crashes, priority in product(range(jobs.CRASH_LIMIT), range(4)):
        place = await db.fetchval("SELECT embedq.place($1::int2, $2::int2, $3)", priority, crashes, NOON)
        assert (place >= SOLO_LANES) is (crashes >= jobs.SOLO_CRASHES)


async def test_a_put_arms_what_the_rules_say(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Rule 3: unless the text is what it was, or its vector is there and no job is on the way."""
    cases = {f"r{n}": case for n, case in enumerate(product(STATUSES, (True, False), (True, False), (True, False)))}
    texts = {name: "old" if same else "new" for name, (_, _, same, _) in cases.items()}
    await store.put(NOTES, [NewRecord(id=RecordId(name), text="old") for name in cases], now=NOON)
    for name, (status, live, _, has_vector) in cases.items():
        await set_up(db, name, status, live=live, vector_of_text=texts[name] if has_vector else None)
    before = {row["id"]: row["arms"] for row in await db.fetch(ARMS)}

    await store.put(NOTES, [NewRecord(id=RecordId(name), text=text) for name, text in texts.items()], now=NOON)

    after = {row["id"]: row["arms"] for row in await db.fetch(ARMS)}
    expected = {
        name: jobs.put_arms(read_status(status), same=live and same, has_vector=has_vector)
        for name, (status, live, same, has_vector) in cases.items()
    }
    assert {name: after[name] != before[name] for name in cases} == expected


@pytest.mark.parametrize("forced", [True, False])
async def test_asking_by_hand_arms_what_the_rules_say(
    store: PostgresStore, db: asyncpg.Connection, *, forced: bool
) -> None:
    """Forced, or with neither vector nor job on the way."""
    cases = {f"r{n}": case for n, case in enumerate(product(STATUSES, (True, False)))}
    await store.put(NOTES, [NewRecord(id=RecordId(name), text="old") for name in cases], now=NOON)
    for name, (status, current) in cases.items():
        await set_up(db, name, status, live=True, vector_of_text="old" if current else None)
    before = {row["id"]: row["arms"] for row in await db.fetch(ARMS)}

    await store.enqueue(NOTES, [RecordId(name) for name in cases], force=forced, now=NOON)

    after = {row["id"]: row["arms"] for row in await db.fetch(ARMS)}
    expected = {
        name: jobs.enqueue_arms(read_status(status), forced=forced, current=current)
        for name, (status, current) in cases.items()
    }
    assert {name: after[name] != before[name] for name in cases} == expected


@pytest.mark.parametrize("status", STATUSES)
async def test_a_cancel_ends_what_the_rules_say(
    store: PostgresStore, db: asyncpg.Connection, status: int | None
) -> None:
    """Rule 9: what is on its way."""
    [receipt] = await store.put(NOTES, [NewRecord(id=RecordId("a"), text="old")], now=NOON)
    await set_up(db, "a", status, live=True, vector_of_text=None)
    before = await db.fetchval("SELECT xmin::text FROM embedq.job")

    assert receipt.job_id
    await store.cancel(receipt.job_id, now=NOON)

    assert (await db.fetchval("SELECT xmin::text FROM embedq.job") != before) is jobs.can_cancel(read_status(status))


@pytest.mark.parametrize(("status", "armed", "edited"), list(product(STATUSES[1:], (False, True), (False, True))))
async def test_a_batch_is_completed_as_a_whole_only_if_the_rules_say(
    store: PostgresStore,
    db: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    *,
    status: int,
    armed: bool,
    edited: bool,
) -> None:
    """Rule 5: its jobs are under their lease, not armed since, and have the texts that were embedded."""
    await write(store, "A")
    lease = await take_one(store)
    monkeypatch.setattr(transitions, "settle", AsyncMock(return_value=(frozenset(), frozenset())))
    await db.execute(CHANGE, status, armed, edited)

    settled = await store.settle([done(lease)], now=NOON)

    stands = jobs.standing(read_status(status, queued=False), under=True, last=True)
    record = jobs.RecordAnswer.CHANGED if edited else jobs.RecordAnswer.FITS
    told = jobs.settle(done(lease), jobs.AttemptFacts(standing=stands, armed=armed, record=record))
    assert bool(settled.jobs) is (told == jobs.Complete())
