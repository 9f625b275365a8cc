"""One SQLite file as queue only, or as corpus only."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Self

from embedq.exchange import Arm, JobState, Loss, Queued, Sizes, Standing, Text, Waiting, Written
from embedq.model import (
    Ask,
    Collection,
    ContentHash,
    Declaration,
    Job,
    JobFilter,
    JobId,
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
from embedq.stores.belonging import refuse_other_corpus
from embedq.stores.sqlite import (
    collections,
    deleting,
    embedding,
    index_rows,
    keeping,
    putting,
    references,
    settling,
)
from embedq.stores.sqlite.corpus import SqliteRecords
from embedq.stores.sqlite.file import File
from embedq.stores.sqlite.jobs import SqliteQueue
from embedq.stores.sqlite.moments import clock, span, stamp
from embedq.stores.sqlite.placing import SqlitePlaces
from embedq.stores.sqlite.transaction import Transaction
from embedq.stores.sqlite.upkeep import SqliteJobs
from embedq.telemetry import Telemetry

STEP = 1000
RecordName = tuple[str, RecordId]


async def open_with_records(path: Path, telemetry: Telemetry, *, make: bool) -> File:
    """Open a file that holds records, or create it with `make`; a queue-only file is refused."""
    file = await File.open(path, telemetry, make=make)
    try:
        await file.read(lambda db: references.refuse_queue(db, path))
    except BaseException:
        await file.close()
        raise
    return file


class SqliteJobStore(SqliteQueue, SqlitePlaces, SqliteJobs):
    """A queue in its own file; its records are in another database."""

    def __init__(self, file: File) -> None:
        """Use an open file; `open` is the usual way."""
        SqliteQueue.__init__(self, file)
        SqlitePlaces.__init__(self, file)
        SqliteJobs.__init__(self, file)

    @classmethod
    async def open(cls, path: Path, *, telemetry: Telemetry | None = None, make: bool = True) -> Self:
        """Open the file, and create or upgrade it; without `make` it is only checked."""
        file = await File.open(path, telemetry or Telemetry(), make=make)
        try:
            if make:
                await file.write(lambda tx: references.claim(tx, path))
            else:
                await file.read(lambda db: references.refuse_unclaimed(db, path))
        except BaseException:
            await file.close()
            raise
        return cls(file)

    async def belong_to(self, corpus: str, *, note: bool = True) -> None:
        """See `ports.Queueing`."""
        noted = await self._file.read(references.noted_corpus)
        if noted is None and note:
            noted = await self._file.write(lambda tx: references.note_corpus(tx, corpus))
        refuse_other_corpus(noted, corpus, self._file.path)

    async def declare(self, collection: Collection, *, now: datetime | None = None) -> None:
        """See `ports.Queueing`."""
        await self._file.write(lambda tx: references.declare(tx, collection, stamp(now, tx.now)))

    async def forget(self, collection: str, *, now: datetime | None = None) -> None:
        """See `ports.Queueing`."""
        await self._file.write(lambda tx: references.forget(tx, collection))
        while await self.finish(limit=STEP, now=now):
            continue

    async def enqueue(self, collection: str, arms: Sequence[Arm], *, now: datetime | None = None) -> Sequence[Queued]:
        """See `ports.Queueing`."""
        return await self._file.write(lambda tx: references.enqueue(tx, collection, arms, stamp(now, tx.now)))

    async def withdraw(self, collection: str, records: Sequence[RecordId], *, now: datetime | None = None) -> None:
        """See `ports.Queueing`."""
        await self._file.write(lambda tx: references.withdraw(tx, collection, records, stamp(now, tx.now)))

    async def states(self, collection: str, records: Sequence[RecordId]) -> Mapping[RecordId, JobState]:
        """See `ports.Queueing`."""
        return await self._file.read(lambda db: references.states(db, collection, records))

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
        del last
        return await self._settle_and_lease(
            lambda tx, moment: settling.settle_answered(tx, outcomes, answers, moment), then, now
        )

    async def purge(self, *, older_than: timedelta, limit: int = 1000, now: datetime | None = None) -> int:
        """See `ports.JobKeeping`."""
        before = stamp(now, clock()) - span(older_than)
        jobs = await self._file.read(lambda db: keeping.old_jobs(db, before, limit))
        return await self._file.write(lambda tx: references.purge(tx, jobs, before, limit), bulk=True)

    async def finish(self, *, limit: int = 1000, now: datetime | None = None) -> int:
        """See `ports.JobKeeping`."""
        return await self._file.write(lambda tx: deleting.remove_dropped(tx, limit, stamp(now, tx.now)), bulk=True)

    async def replay_quota(self, *, older_than: timedelta, now: datetime | None = None) -> Sequence[RecordName]:
        """See `ports.JobKeeping`."""

        def work(tx: Transaction) -> list[RecordName]:
            moment = stamp(now, tx.now)
            return references.replay_quota(tx, moment - span(older_than), STEP, moment)

        return await self._file.write(work, bulk=True)

    async def revive(
        self, which: JobFilter, *, job: JobId | None = None, limit: int = 1000, now: datetime | None = None
    ) -> Sequence[RecordName]:
        """See `ports.JobKeeping`."""
        if job is not None and await self.job(job) is None:
            return []
        return await self._file.write(lambda tx: references.revive(tx, which, job, limit, stamp(now, tx.now)))

    async def cancel(
        self, job: JobId, current: ContentHash | None, *, tenant: str | None = None, now: datetime | None = None
    ) -> Job | None:
        """See `ports.JobKeeping`."""
        if await self.job(job) is None:
            return None
        await self._file.write(lambda tx: references.cancel(tx, job, current, tenant, stamp(now, tx.now)))
        return owned(await self.job(job), tenant)

    async def waiting(self, collection: str, *, now: datetime | None = None) -> Waiting:
        """See `ports.JobLookups`."""
        return await self._file.read(lambda db: references.waiting(db, collection, stamp(now, clock())))

    async def check(self) -> None:
        """See `ports.Lifetime`."""
        await self._file.check()

    async def close(self) -> None:
        """See `ports.Lifetime`."""
        await self._file.close()


class SqliteCorpusStore(SqliteRecords):
    """Records and vectors in a file whose jobs are in another database."""

    @classmethod
    async def open(
        cls, path: Path, *, telemetry: Telemetry | None = None, limits: Limits | None = None, make: bool = True
    ) -> Self:
        """Open the file, and create or upgrade it; without `make` it is only checked."""
        return cls(await open_with_records(path, telemetry or Telemetry(), make=make), limits or Limits())

    async def declare(self, declaration: Declaration, *, now: datetime | None = None) -> Collection:
        """See `ports.Declaring`."""
        return await self._declare(declaration, now, arms=False)

    async def put(
        self,
        collection: str,
        records: Sequence[NewRecord],
        *,
        now: datetime | None = None,
        connection: object | None = None,
    ) -> Sequence[Written]:
        """See `ports.RecordWriting`."""

        def work(tx: Transaction) -> list[Written]:
            return putting.write(tx, collection, records, self._limits, stamp(now, tx.now))

        return await self._file.write(work) if connection is None else await self._file.write_on(connection, work)

    async def patch(self, collection: str, record: RecordId, patch: Patch, *, now: datetime | None = None) -> Written:
        """See `ports.RecordWriting`."""
        return await self._file.write(
            lambda tx: putting.write_patch(tx, collection, record, patch, self._limits, stamp(now, tx.now))
        )

    async def texts(
        self, space: SpaceId, records: Mapping[str, Sequence[RecordId]]
    ) -> Mapping[str, Mapping[RecordId, Text]]:
        """See `ports.Embedding`."""
        return await self._file.read(lambda db: embedding.texts(db, space, records))

    async def store(self, outcomes: Sequence[Outcome], *, now: datetime | None = None) -> Sequence[RecordAnswer | None]:
        """See `ports.Embedding`."""
        return await self._file.write(lambda tx: embedding.store(tx, outcomes, stamp(now, tx.now)), bulk=True)

    async def give_up(self, collection: str, losses: Sequence[Loss]) -> None:
        """See `ports.Embedding`."""
        await self._file.write(lambda tx: embedding.give_up(tx, collection, losses))

    async def try_again(self, collection: str, records: Sequence[RecordId]) -> None:
        """See `ports.Embedding`."""
        await self._file.write(lambda tx: embedding.try_again(tx, collection, records))

    async def identity(self) -> str:
        """See `ports.CorpusKeeping`."""
        return str((await self._file.read(index_rows.state)).identity)

    async def standing(self, collection: str, records: Sequence[RecordId]) -> Sequence[Standing]:
        """See `ports.CorpusKeeping`."""
        return await self._file.read(lambda db: embedding.standing(db, collection, records))

    async def missing(self, collection: str, *, after: str | None = None, limit: int = 10) -> Sequence[Standing]:
        """See `ports.CorpusKeeping`."""
        return await self._file.read(lambda db: embedding.missing(db, collection, after, limit))

    async def purge(self, *, older_than: timedelta, limit: int = 1000, now: datetime | None = None) -> int:
        """See `ports.CorpusKeeping`."""
        before = stamp(now, clock()) - span(older_than)
        return await self._file.write(lambda tx: keeping.purge(tx, [], before, limit), bulk=True)

    async def finish(self, *, limit: int = 1000, now: datetime | None = None) -> int:
        """See `ports.CorpusKeeping`."""

        def work(tx: Transaction) -> int:
            moment = stamp(now, tx.now)
            return (
                deleting.remove_dropped(tx, limit, moment)
                or collections.recompose(tx, limit, moment, arms=False)
                or collections.fill_words(tx, limit)
            )

        return await self._file.write(work, bulk=True)

    async def sizes(self) -> Mapping[str, Sizes]:
        """See `ports.CorpusKeeping`."""
        return await self._file.read(embedding.sizes)

    async def check(self) -> None:
        """See `ports.Lifetime`."""
        await self._file.check()

    async def close(self) -> None:
        """See `ports.Lifetime`."""
        await self._file.close()
