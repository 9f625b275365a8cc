"""One PostgreSQL database as queue only, or as corpus only."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Self

from embedq.exchange import Arm, JobState, Loss, Queued, Sizes, Standing, Text, Waiting, Written
from embedq.model import (
    Ask,
    Collection,
    ContentHash,
    Job,
    JobFilter,
    JobId,
    Leased,
    NewRecord,
    Outcome,
    Patch,
    RecordId,
    Settled,
    SpaceId,
)
from embedq.policy.jobs import RecordAnswer
from embedq.policy.tenants import owned
from embedq.policy.texts import Limits
from embedq.stores.postgres import (
    build_memory,
    callers,
    collections,
    embedding,
    index,
    keeping,
    putting,
    references,
    transitions,
)
from embedq.stores.postgres.address import parse
from embedq.stores.postgres.corpus import PostgresRecords
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.holding import Holds, belong_to, open_as
from embedq.stores.postgres.jobs import BUSY_PAUSES, Ended, PostgresQueue
from embedq.stores.postgres.lifetime import PostgresLifetime
from embedq.stores.postgres.placing import PostgresPlaces
from embedq.stores.postgres.upkeep import PostgresJobs
from embedq.telemetry import Telemetry

STEP = 1000
RecordName = tuple[str, RecordId]


class PostgresJobStore(PostgresLifetime, PostgresQueue, PostgresPlaces, PostgresJobs):
    """A queue in its own database; its records are in another."""

    def __init__(self, database: Database) -> None:
        """Use an open database; `open` is the usual way."""
        PostgresQueue.__init__(self, database)
        PostgresPlaces.__init__(self, database)
        PostgresJobs.__init__(self, database)

    @classmethod
    async def open(
        cls, url: str, *, telemetry: Telemetry | None = None, pooler: bool = False, make: bool = True
    ) -> Self:
        """Open the database, and install or upgrade its schema; without `make` it is only checked."""
        address = parse(url, pooler=pooler)
        await open_as(Holds.JOBS, address, make=make)
        return cls(Database(address, telemetry or Telemetry()))

    async def belong_to(self, corpus: str, *, note: bool = True) -> None:
        """See `ports.Queueing`."""
        shown = self._database.address.shown
        await self._database.run(lambda db: belong_to(db, corpus, shown, note=note), repeat=True)

    async def declare(self, collection: Collection, *, now: datetime | None = None) -> None:
        """See `ports.Queueing`."""
        del now
        await references.declare(self._database, collection)

    async def forget(self, collection: str, *, now: datetime | None = None) -> None:
        """See `ports.Queueing`."""
        await references.forget(self._database, collection)
        while await self.finish(limit=STEP, now=now):
            continue

    async def enqueue(self, collection: str, arms: Sequence[Arm], *, now: datetime | None = None) -> Sequence[Queued]:
        """See `ports.Queueing`."""
        queued = await self._database.write(lambda db: references.enqueue(db, collection, arms, now), repeat=False)
        self._wake(sum(one.armed for one in queued))
        return queued

    async def withdraw(self, collection: str, records: Sequence[RecordId], *, now: datetime | None = None) -> None:
        """See `ports.Queueing`."""
        await self._database.write(lambda db: references.withdraw(db, collection, records, now), repeat=True)

    async def states(self, collection: str, records: Sequence[RecordId]) -> Mapping[RecordId, JobState]:
        """See `ports.Queueing`."""
        return await self._database.run(lambda db: references.states(db, collection, records), repeat=True)

    async def settle(
        self,
        outcomes: Sequence[Outcome],
        answers: Sequence[RecordAnswer],
        *,
        then: Ask | None = None,
        last: bool = False,
        now: datetime | None = None,
    ) -> Settled:
        """See `ports.Attempting`."""
        if not outcomes:
            return Settled(jobs=frozenset(), next=await self.lease(then, now=now) if then else Leased())
        said = {id(outcome): answer for outcome, answer in zip(outcomes, answers, strict=True)}

        async def settle(some: Sequence[Outcome]) -> Ended:
            return await transitions.settle(self._database, some, now, last=last, answers=said)

        return await self._settle_and_lease(settle, outcomes, then, now)

    async def wait_for_work(self, timeout: timedelta) -> None:  # noqa: ASYNC109 a bound, not a cancellation
        """See `ports.Attempting`."""
        await self._database.wait(timeout)

    async def finish(self, *, limit: int = 1000, now: datetime | None = None) -> int:
        """See `ports.JobKeeping`."""
        return await keeping.remove_dropped(self._database, limit, now)

    async def replay_quota(self, *, older_than: timedelta, now: datetime | None = None) -> Sequence[RecordName]:
        """See `ports.JobKeeping`."""
        revived = await self._database.write(lambda db: references.replay_quota(db, older_than, STEP, now), repeat=True)
        self._wake(len(revived))
        return revived

    async def revive(
        self, which: JobFilter, *, job: JobId | None = None, limit: int = 1000, now: datetime | None = None
    ) -> Sequence[RecordName]:
        """See `ports.JobKeeping`."""
        revived = await self._database.write(lambda db: references.revive(db, which, job, limit, now), repeat=True)
        self._wake(len(revived))
        return revived

    async def cancel(
        self, job: JobId, current: ContentHash | None, *, tenant: str | None = None, now: datetime | None = None
    ) -> Job | None:
        """See `ports.JobKeeping`."""
        await self._database.write(lambda db: references.cancel(db, job, current, tenant, now), repeat=True)
        return owned(await self.job(job), tenant)

    async def waiting(self, collection: str, *, now: datetime | None = None) -> Waiting:
        """See `ports.JobLookups`."""
        return await self._database.run(lambda db: references.waiting(db, collection, now), repeat=True)


class PostgresCorpusStore(PostgresLifetime, PostgresRecords):
    """Records and vectors in a database whose jobs are in another."""

    def __init__(self, database: Database, limits: Limits, indexes: index.Indexes) -> None:
        """Use an open database; `open` is the usual way."""
        PostgresRecords.__init__(self, database, limits)
        self._indexes = indexes

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        telemetry: Telemetry | None = None,
        limits: Limits | None = None,
        index_from: int = index.WORTH,
        index_memory_mb: int = build_memory.MEMORY_MB,
        pooler: bool = False,
        make: bool = True,
    ) -> Self:
        """Open the database, and install or upgrade its schema; see `PostgresStore.open`."""
        address = parse(url, pooler=pooler)
        await open_as(Holds.RECORDS, address, make=make)
        database = Database(address, telemetry or Telemetry())
        return cls(database, limits or Limits(), index.Indexes(database, index_from, index_memory_mb))

    async def put(
        self,
        collection: str,
        records: Sequence[NewRecord],
        *,
        now: datetime | None = None,
        connection: object | None = None,
    ) -> Sequence[Written]:
        """See `ports.RecordWriting`."""
        if connection is not None:
            return await callers.put(
                self._database, connection, collection, records, self._limits, now, putting.written
            )
        written = await putting.put(self._database, collection, records, self._limits, now, putting.written)
        await self._fold()
        return written

    async def patch(self, collection: str, record: RecordId, patch: Patch, *, now: datetime | None = None) -> Written:
        """See `ports.RecordWriting`."""
        return await putting.patch(self._database, collection, record, patch, self._limits, now, putting.written)

    async def texts(
        self, space: SpaceId, records: Mapping[str, Sequence[RecordId]]
    ) -> Mapping[str, Mapping[RecordId, Text]]:
        """See `ports.Embedding`."""
        return await self._database.run(lambda db: embedding.texts(db, space, records), repeat=True)

    async def store(self, outcomes: Sequence[Outcome], *, now: datetime | None = None) -> Sequence[RecordAnswer | None]:
        """See `ports.Embedding`. Retries records that are locked for a moment."""
        answers = await self._store(outcomes, now)
        for pause in BUSY_PAUSES:
            held = [place for place, answer in enumerate(answers) if answer is None]
            if not held:
                break
            await asyncio.sleep(pause)
            for place, answer in zip(held, await self._store([outcomes[n] for n in held], now), strict=True):
                answers[place] = answer
        return answers

    async def _store(self, outcomes: Sequence[Outcome], now: datetime | None) -> list[RecordAnswer | None]:
        return await self._database.run(lambda db: embedding.store(db, outcomes, now), repeat=True)

    async def give_up(self, collection: str, losses: Sequence[Loss]) -> None:
        """See `ports.Embedding`."""
        await self._database.run(lambda db: embedding.give_up(db, collection, losses), repeat=True)

    async def try_again(self, collection: str, records: Sequence[RecordId]) -> None:
        """See `ports.Embedding`."""
        await self._database.run(lambda db: embedding.try_again(db, collection, records), repeat=True)

    async def identity(self) -> str:
        """See `ports.CorpusKeeping`."""
        return str(await self._database.call("SELECT identity FROM embedq.control"))

    async def standing(self, collection: str, records: Sequence[RecordId]) -> Sequence[Standing]:
        """See `ports.CorpusKeeping`."""
        return await self._database.run(lambda db: embedding.standing(db, collection, records), repeat=True)

    async def missing(self, collection: str, *, after: str | None = None, limit: int = 10) -> Sequence[Standing]:
        """See `ports.CorpusKeeping`."""
        return await self._database.run(lambda db: embedding.missing(db, collection, after, limit), repeat=True)

    async def purge(self, *, older_than: timedelta, limit: int = 1000, now: datetime | None = None) -> int:
        """See `ports.CorpusKeeping`."""
        return int(await self._database.call(keeping.PURGE_REST, now, older_than, limit))

    async def finish(self, *, limit: int = 1000, now: datetime | None = None) -> int:
        """See `ports.CorpusKeeping`."""
        done = await keeping.remove_dropped(self._database, limit, now)
        done = done or await collections.recompose(self._database, limit, self._limits, now)
        done = done or await self._indexes.build_one()
        return done or await collections.index_words(self._database, limit)

    async def sizes(self) -> Mapping[str, Sizes]:
        """See `ports.CorpusKeeping`."""
        return await self._database.run(embedding.sizes, repeat=True)
