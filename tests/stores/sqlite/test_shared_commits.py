"""Callers share the writer's commits: what one of them does wrong is not the others' business."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from queue import SimpleQueue
from threading import Event as Signal
from threading import Thread
from typing import Any

import pytest
import pytest_asyncio

from embedq.errors import StoreError
from embedq.model import Ask, JobId, JobStatus, NewRecord, Outcome, Query, Receipt, RecordId, Settled, WorkerId
from embedq.policy.texts import Limits
from embedq.stores.sqlite import SqliteStore, leasing, putting, settling
from embedq.stores.sqlite.given_leases import GivenLeases
from embedq.stores.sqlite.moments import stamp
from embedq.stores.sqlite.transaction import Transaction
from embedq.stores.sqlite.writer import Work, _Call
from embedq.telemetry import Event, Telemetry
from embedq.testing.stores.stage import DIMENSIONS, LEASE, NOON, NOTES, declaration, done, job_of, read, take_one, write

FULL = 2
MOMENT = stamp(NOON, 0)


class ChangedMind(Exception):
    """What a caller's work ends with after it has written."""


@pytest.fixture
def heard() -> list[Event]:
    return []


@pytest_asyncio.fixture
async def store(tmp_path: Path, heard: list[Event]) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "embedq.db", telemetry=Telemetry(lambda event, *_: heard.append(event)))
    collection = await store.declare(declaration(), now=NOON)
    await store.learn(collection.space.id, DIMENSIONS)
    yield store
    await store.close()


async def share(store: SqliteStore, *works: Work[object]) -> list[object]:
    """Have these works done in one transaction; answer with what each of them got."""
    begun, go_on = Signal(), Signal()
    transactions = []

    def hold(_: Transaction) -> None:
        begun.set()
        go_on.wait()

    def noted(work: Work[object]) -> Work[object]:
        def do(tx: Transaction) -> object:
            transactions.append(tx)
            return work(tx)

        return do

    holding = asyncio.create_task(store._file.write(hold))
    await asyncio.to_thread(begun.wait)
    shared = [asyncio.create_task(store._file.write(noted(work))) for work in works]
    await asyncio.sleep(0)  # each has handed its work in
    go_on.set()
    answers = await asyncio.gather(*shared, return_exceptions=True)
    await holding
    assert len(set(map(id, transactions))) == 1
    return answers


def putting_of(*names: str, fails: bool = False) -> Work[object]:
    def work(tx: Transaction) -> object:
        records = [NewRecord(id=RecordId(name), text=f"text of {name}") for name in names]
        putting.put(tx, NOTES, records, Limits(), MOMENT)
        if fails:
            raise ChangedMind
        return names

    return work


def settling_of(outcome: Outcome) -> Work[object]:
    def work(tx: Transaction) -> object:
        settling.settle(tx, [outcome], GivenLeases(), MOMENT)
        tx.stored.append((1, 0.0))
        raise ChangedMind

    return work


async def test_a_commit_reaches_the_disk_before_its_answer(store: SqliteStore) -> None:
    """An acknowledged write outlives the power: every commit of the writer waits for the disk."""
    asked = ("PRAGMA synchronous", "PRAGMA journal_mode")

    found = await store._file.write(lambda tx: [tx.db.execute(pragma).fetchone()[0] for pragma in asked])

    assert found == [FULL, "wal"]


async def test_a_caller_that_fails_is_undone_alone(store: SqliteStore) -> None:
    """Of three that share a commit the second fails after it has written: nothing of it stays, all of the others."""
    answers = await share(store, putting_of("a"), putting_of("b", "c", fails=True), putting_of("d"))

    assert [type(answer) for answer in answers] == [tuple, ChangedMind, tuple]
    assert [record.id for record in (await store.records(NOTES)).items] == ["a", "d"]
    counts = (await store.counts())[NOTES]
    assert (counts.records, counts.missing, counts.pending) == (2, 2, 2)


async def test_a_settle_that_fails_is_undone_alone(store: SqliteStore) -> None:
    """Its job is still leased, and can be settled again."""
    receipt = await write(store, "A")
    lease = await take_one(store)

    await share(store, settling_of(done(lease)), putting_of("b"))

    assert (await job_of(store, receipt)).status is JobStatus.PROCESSING
    assert (await read(store)).vector is None
    assert (await store.settle([done(lease)], now=NOON)).jobs == {receipt.job_id}


async def test_words_of_a_caller_that_is_undone_are_not_indexed(store: SqliteStore, db: sqlite3.Connection) -> None:
    """The next caller gets the numbers of the records that were undone: each word stands in the index once."""
    await share(store, putting_of("a", "b", "c", fails=True), putting_of("d"))

    hits = await store.search_words(NOTES, "text", Query(k=10))

    assert [hit.id for hit in hits] == ["d"]
    db.execute("INSERT INTO embedq_words_1_1 (embedq_words_1_1, rank) VALUES ('integrity-check', 1)")


async def test_what_was_undone_is_not_told(store: SqliteStore, heard: list[Event]) -> None:
    """No event speaks of a vector that was not stored."""
    await write(store, "A")
    lease = await take_one(store)

    await share(store, settling_of(done(lease)), putting_of("b"))
    await write(store, "C", "c")  # what follows a commit is told before the next begins

    assert Event.STORED not in heard


async def test_a_call_beside_the_close_is_answered(tmp_path: Path) -> None:
    """The store is closed just while a call is being queued: it is done or refused, and does not wait for ever."""
    store = await SqliteStore.open(tmp_path / "embedq.db")
    writer = store._file._writer
    closing = Thread(target=writer.close)

    class Slow(SimpleQueue[Any]):
        def put(self, item: Any, *_: Any) -> None:  # type: ignore[override]  # noqa: ANN401 as it is
            if item is not None and not closing.ident:
                closing.start()
                closing.join(0.5)  # enough for a close that nothing keeps
            super().put(item)

    writer._calls, calls = Slow(), writer._calls
    loop = asyncio.get_running_loop()
    calls.put(_Call(lambda _: None, bulk=False, loop=loop, future=loop.create_future()))
    async with asyncio.timeout(5):
        assert await writer.run(lambda _: 42) == 42
    closing.join()


async def settle_beside_a_put(store: SqliteStore) -> tuple[Settled, Receipt]:
    """Settle a job and lease the next, while a put comes to wait."""
    begun, go_on = Signal(), Signal()

    def settle(_tx: Transaction, _now: int) -> frozenset[JobId]:
        begun.set()
        go_on.wait()
        return frozenset({JobId("1")})

    then = Ask(worker=WorkerId("w1"), spaces=[space.id for space in await store.spaces()], limit=10, span=LEASE)
    settling = asyncio.create_task(store._settle_and_lease(settle, then, NOON))
    await asyncio.to_thread(begun.wait)
    put = asyncio.create_task(write(store, "A"))
    await asyncio.sleep(0)  # it has handed its work in
    go_on.set()
    receipt = await put
    return await settling, receipt


async def test_a_put_goes_between_a_settlement_and_the_next_lease(store: SqliteStore) -> None:
    """It waits for half of what a batch writes; so the lease that follows has its job already."""
    settled, receipt = await settle_beside_a_put(store)

    assert [lease.job_id for lease in settled.next.leases] == [receipt.job_id]


async def test_a_lease_that_fails_does_not_hide_what_was_settled(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two are no longer one commit: a worker that heard of no settlement would take its jobs for lost."""

    def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(leasing, "take", fail)

    settled, _ = await settle_beside_a_put(store)

    assert (settled.jobs, settled.next.leases) == ({"1"}, ())


async def test_other_batches_do_not_split_a_batch(store: SqliteStore) -> None:
    """Whoever has a batch to write waits for its turn, and nothing goes between."""
    begun, go_on = Signal(), Signal()

    def work(tx: Transaction) -> bool:
        begun.set()
        go_on.wait()
        return tx.is_awaited()

    first = asyncio.create_task(store._file.write(work, bulk=True))
    await asyncio.to_thread(begun.wait)
    second = asyncio.create_task(store._file.write(lambda _: None, bulk=True))
    await asyncio.sleep(0)
    go_on.set()

    assert await first is False
    await second
