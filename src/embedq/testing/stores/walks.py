"""Random walks: whatever happens in whatever order, the store behaves as the rules say."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import cast

import numpy as np

from embedq.model import Counts, EmbedderName, Job, JobFilter, JobId, JobStatus, Missing, Record
from embedq.ports import Store
from embedq.testing.stores.acts import NAMES, Pair
from embedq.testing.stores.model import JobRow, RecordRow, RulesModel
from embedq.testing.stores.recording import RecordingStore
from embedq.testing.stores.stage import DIMENSIONS, NOON, Stage, declaration, vector_of

WALKS = int(os.environ.get("EMBEDQ_WALKS", "20"))
FIRST = int(os.environ.get("EMBEDQ_FIRST_WALK", "0"))
STEPS = 80
WEIGHTS = {
    "put": 16,
    "patch": 3,
    "delete": 4,
    "enqueue": 5,
    "cancel": 3,
    "revive": 3,
    "lease": 18,
    "crash": 4,
    "refuse": 2,
    "settle": 24,
    "settle_again": 4,
    "renew": 3,
    "pass_time": 6,
    "set_clock_back": 1,
    "rescue": 8,
    "reconcile": 1,
    "purge": 1,
    "replay_quota": 1,
    "pause": 1,
    "resume": 5,
    "hold": 2,
}

CLOCK_ACTS = {"pass_time", "set_clock_back"}  # acts that call no store

Step = tuple[str, int, int, int]


class WalkFacts(Stage):
    """The store against the model."""

    async def test_the_store_walks_as_the_rules_say(self, store: Store, other: Store) -> None:
        """After every step of every walk, all that is visible of the store is what the model says.

        `EMBEDQ_WALKS` sets how many walks are taken, `EMBEDQ_FIRST_WALK` the seed of the first.
        """
        walker = Walker(store, other, one_database=self.one_database)
        for seed in range(FIRST, FIRST + WALKS):
            steps = walk_of(seed)
            if await walker.walk(steps) is not None:
                steps = await shortest(walker, steps)
                raise AssertionError(f"walk {seed}: {await walker.walk(steps)}")


class Walker:
    """Where walks run: the same database for all of them, with new collections and spaces for each."""

    def __init__(self, store: Store, other: Store, *, one_database: bool = True) -> None:
        """Walk on a store that is opened twice."""
        self._stores = (store, other)
        self._one_database = one_database
        self._numbers = count()

    async def walk(self, steps: Sequence[Step]) -> str | None:
        """Run a walk; return what went wrong, if anything did."""
        pair = await self._begin()
        step: Step | None = None
        try:
            for step in steps:
                await getattr(pair, step[0])(*step[1:])
                if step[0] not in CLOCK_ACTS:
                    await check(pair)
            await check_upkeep(pair)
            assert await self._stores[0].misplaced() == [], "an open job is not in exactly one place"
        except AssertionError as error:
            return "\n".join([f"{error} after", *pair.calls, f"at {step}"])
        finally:
            await self.end(pair)
        return None

    async def _begin(self) -> Pair:
        number = next(self._numbers)
        spaces = {}
        for collection, kind in (("near", "near"), ("also", "near"), ("far", "far")):
            embedder = EmbedderName(provider="fake", model=f"{kind}{number}")
            found = await self._stores[0].declare(declaration(collection, embedder=embedder), now=NOON)
            await self._stores[0].learn(found.space.id, DIMENSIONS)
            spaces[collection] = found.space.id
        calls: list[str] = []
        one, two = (
            cast("Store", RecordingStore(store, name, calls)) for store, name in zip(self._stores, "ab", strict=True)
        )
        return Pair(RulesModel(one_database=self._one_database), (one, two), spaces, calls)

    async def end(self, pair: Pair) -> None:
        """Leave nothing behind but used numbers."""
        await self._stores[0].resume()
        for collection in pair.spaces:
            await self._stores[0].drop(collection, now=NOON)


def walk_of(seed: int) -> list[Step]:
    """Make the walk of a seed. Each has its own weights, so that rare acts meet one another."""
    rng = random.Random(seed)  # noqa: S311 a walk, not a secret
    weights = [weight * rng.choice((0.2, 1, 1, 4)) for weight in WEIGHTS.values()]
    acts = rng.choices(list(WEIGHTS), weights, k=STEPS)
    return [(act, rng.randrange(10_000), rng.randrange(10_000), rng.randrange(11**5)) for act in acts]


async def shortest(walker: Walker, steps: list[Step]) -> list[Step]:
    """Remove steps, many at first and one at a time in the end, as long as the walk still fails."""
    size = len(steps) // 2
    while size:
        for start in range(len(steps) - size, -1, -1):
            fewer = steps[:start] + steps[start + size :]
            if await walker.walk(fewer) is not None:
                steps = fewer
        size //= 2
    return steps


async def check(pair: Pair) -> None:
    """Compare everything that is visible."""
    store, model = pair.stores[0], pair.model
    page, counts, corpora = await asyncio.gather(
        store.jobs(JobFilter(), limit=100),
        store.counts(),
        asyncio.gather(*(_read(store, collection) for collection in pair.spaces)),
    )
    for collection, (records, missing) in zip(pair.spaces, corpora, strict=True):
        _check_records(pair, collection, records)
        _check_missing(pair, collection, missing)
        assert counts[collection] == _counted(model, collection), "the sums differ"
    jobs = {job.id: job for job in page.items}
    assert set(jobs) == {row.id for row in model.jobs}, "other jobs are listed"
    for row in model.jobs:
        _same_job(jobs[row.id or JobId("")], row)


async def check_upkeep(pair: Pair) -> None:
    """Check at the end of a walk that upkeep finds nothing to repair."""
    for collection in pair.spaces:
        assert await pair.stores[0].recount(collection) == (0, None)


async def _read(store: Store, collection: str) -> tuple[Sequence[Record], Sequence[Missing]]:
    wanted = [id_ for of, id_ in NAMES if of == collection]
    return await store.get(collection, wanted, with_vectors=True), await store.missing(collection)


def _check_records(pair: Pair, collection: str, records: Sequence[Record]) -> None:
    found = {record.id: record for record in records}
    rows = {row.name[1]: row for row in pair.model.live(collection)}
    assert set(found) == set(rows), "other records are live"
    for id_, row in rows.items():
        _same_record(found[id_], row)
        pair.same_number(row, found[id_].job_id)


def _check_missing(pair: Pair, collection: str, missing: Sequence[Missing]) -> None:
    """Compare what is missing; on one database no record may need a job."""
    expected = {(row.name[1], row.needs_job) for row in pair.model.live(collection) if not row.current}
    assert {(found.id, found.needs_job) for found in missing} == expected, "other vectors are missing"
    in_need = {(collection, found.id) for found in missing if found.needs_job}
    assert in_need <= pair.reported_gone, "a live record has neither vector nor job nor dead letter"
    pair.reported_gone -= {name for name in pair.reported_gone if name[0] == collection} - in_need


def _same_record(record: Record, row: RecordRow) -> None:
    assert record.text == row.text
    assert (record.embedding_status, record.reason) == (row.embedding_status, row.reason)
    if row.vector is None:
        assert record.vector is None
    else:
        assert record.vector is not None
        assert np.array_equal(record.vector, vector_of(row.vector)), "a vector is not its text's"


def _same_job(job: Job, row: JobRow) -> None:
    shown = JobStatus.RETRYING if row.status is JobStatus.PENDING and row.attempts else row.status
    assert (job.status, job.reason) == (shown, row.reason)
    assert (job.attempts, job.crashes, job.priority) == (row.attempts, row.crashes, row.priority)
    assert (job.lease_until, job.completed_at) == (row.until, row.ended_at)
    assert (job.collection, job.record_id) == row.record.name
    assert row.status is not JobStatus.PROCESSING or job.worker_id == row.worker


def _counted(model: RulesModel, collection: str) -> Counts:
    statuses = Counter(row.status.value for row in model.jobs if row.record.name[0] == collection)
    live = model.live(collection)
    return Counts(**statuses, records=len(live), missing=sum(not row.current for row in live))
