"""The two halves of a store: a corpus without a queue, and a queue without a corpus. `stores.pair` joins any two.

The corpus writes first and answers with what the queue must hear; it alone knows texts, and whether a vector fits. The
queue knows records by name, and decides by the rules of a job and by what the corpus said.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from embedq.exchange import Arm, JobState, Loss, Queued, Sizes, Standing, Text, Waiting, Written
from embedq.model import (
    Ask,
    Collection,
    ContentHash,
    Counts,
    Job,
    JobFilter,
    JobId,
    Lease,
    Leased,
    NewRecord,
    Outcome,
    Page,
    Patch,
    RecordId,
    Rescued,
    Settled,
    SpaceId,
    Vector,
    WorkerId,
)
from embedq.policy.jobs import RecordAnswer
from embedq.ports.corpus import Declaring, Reading
from embedq.ports.jobs import Budgeting, Fleet, Pausing, Placing
from embedq.ports.lifetime import Lifetime

RecordName = tuple[str, RecordId]  # a collection and an id in it


class Queueing(Protocol):
    """How a queue hears of collections and records. Calls may come in any order and more than once."""

    async def declare(self, collection: Collection, *, now: datetime | None = None) -> None:
        """Learn a collection with its space, priority and retry policy; jobs of another space are forgotten."""
        ...

    async def forget(self, collection: str, *, now: datetime | None = None) -> None:
        """Remove a collection with its jobs; one that is not there is none to remove."""
        ...

    async def enqueue(self, collection: str, arms: Sequence[Arm], *, now: datetime | None = None) -> Sequence[Queued]:
        """Arm the jobs that the rules say; an open one keeps the higher priority. Unknown collection: NotFound."""
        ...

    async def withdraw(self, collection: str, records: Sequence[RecordId], *, now: datetime | None = None) -> None:
        """Cancel the open jobs of records that were deleted."""
        ...

    async def states(self, collection: str, records: Sequence[RecordId]) -> Mapping[RecordId, JobState]:
        """Say how the jobs of these records stand; a record without a job is left out."""
        ...


class Attempting(Protocol):
    """The worker's side of a queue without texts."""

    async def lease(self, ask: Ask, *, now: datetime | None = None) -> Leased:
        """See `Leasing.lease`. Text, hash and whether a vector is current are for the corpus to say."""
        ...

    async def renew(self, leases: Sequence[Lease], *, span: timedelta, now: datetime | None = None) -> set[JobId]:
        """See `Leasing.renew`."""
        ...

    async def settle(
        self,
        outcomes: Sequence[Outcome],
        answers: Sequence[RecordAnswer],
        *,
        then: Ask | None = None,
        last: bool = False,
        now: datetime | None = None,
    ) -> Settled:
        """Record how attempts ended, each with what the corpus said of its record, and lease the next batch."""
        ...

    async def wait_for_work(self, timeout: timedelta) -> None:  # noqa: ASYNC109 a bound, not a cancellation
        """See `Leasing.wait_for_work`."""
        ...


class JobKeeping(Protocol):
    """Upkeep of jobs, and what people do to them."""

    async def rescue(
        self, *, dead: Sequence[WorkerId] = (), unrenewed_for: timedelta | None = None, now: datetime | None = None
    ) -> Sequence[Rescued]:
        """See `Keeping.rescue`."""
        ...

    async def purge(self, *, older_than: timedelta, limit: int = 1000, now: datetime | None = None) -> int:
        """Delete some finished jobs past retention; 0 when none is left."""
        ...

    async def finish(self, *, limit: int = 1000, now: datetime | None = None) -> int:
        """Do some of what a `forget` left to do; 0 when nothing is left."""
        ...

    async def replay_quota(self, *, older_than: timedelta, now: datetime | None = None) -> Sequence[RecordName]:
        """Revive dead letters with reason `quota` that are old enough; say whose."""
        ...

    async def revive(
        self, which: JobFilter, *, job: JobId | None = None, limit: int = 1000, now: datetime | None = None
    ) -> Sequence[RecordName]:
        """See `Operating.revive`; say whose jobs were armed."""
        ...

    async def cancel(
        self, job: JobId, current: ContentHash | None, *, tenant: str | None = None, now: datetime | None = None
    ) -> Job | None:
        """See `Operating.cancel`: it is cancelled for the text that its record has now."""
        ...


class JobLookups(Protocol):
    """What people ask of jobs."""

    async def counts(self) -> Mapping[str, Counts]:
        """Count jobs per collection."""
        ...

    async def jobs(self, which: JobFilter, *, limit: int = 100, cursor: str | None = None) -> Page[Job]:
        """See `Operating.jobs`."""
        ...

    async def job(self, job: JobId) -> Job | None:
        """Read one job."""
        ...

    async def dead_stats(self, *, tenant: str | None = None) -> Sequence[Mapping[str, Any]]:
        """See `Operating.dead_stats`."""
        ...

    async def oldest_pending(self, *, now: datetime | None = None) -> Mapping[str, timedelta]:
        """See `Operating.oldest_pending`."""
        ...

    async def waiting(self, collection: str, *, now: datetime | None = None) -> Waiting:
        """Say how many jobs of a collection are on their way, and how long the oldest waits."""
        ...


class JobStore(
    Queueing, Attempting, Budgeting, JobKeeping, Placing, JobLookups, Pausing, Fleet, Lifetime, Protocol
):  # one half
    """A queue whose records are elsewhere. It may be wiped: it never gives out a number again."""


class RecordWriting(Protocol):
    """Records are written, and whoever keeps their jobs is told what happened."""

    async def put(
        self,
        collection: str,
        records: Sequence[NewRecord],
        *,
        now: datetime | None = None,
        connection: object | None = None,
    ) -> Sequence[Written]:
        """Write records, all or none, on the caller's `connection` if given; answer in order."""
        ...

    async def patch(self, collection: str, record: RecordId, patch: Patch, *, now: datetime | None = None) -> Written:
        """Merge a change into a live record."""
        ...

    async def delete(
        self,
        collection: str,
        records: Sequence[RecordId],
        *,
        purge: bool = False,
        tenant: str | None = None,
        now: datetime | None = None,
        connection: object | None = None,
    ) -> Sequence[RecordId]:
        """See `Writing.delete`."""
        ...


class Embedding(Protocol):
    """Texts out, vectors in."""

    async def texts(
        self, space: SpaceId, records: Mapping[str, Sequence[RecordId]]
    ) -> Mapping[str, Mapping[RecordId, Text]]:
        """Read texts by collection; records that are not live, or of another space, are left out."""
        ...

    async def known(self, space: SpaceId, hashes: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
        """Look up vectors that were paid for already, in one round trip."""
        ...

    async def store(self, outcomes: Sequence[Outcome], *, now: datetime | None = None) -> Sequence[RecordAnswer | None]:
        """Store the vectors that fit, and say of each record whether it is live with the text that was leased.

        The statement that writes tests it. A vector that does not fit is kept for reuse, unless its text was erased.
        Done without a vector fits only if the stored one is current. None: somebody holds the record just now.
        """
        ...

    async def give_up(self, collection: str, losses: Sequence[Loss]) -> None:
        """Note which texts are given up on, of records that still have them."""
        ...

    async def try_again(self, collection: str, records: Sequence[RecordId]) -> None:
        """Forget what was given up on."""
        ...


class CorpusKeeping(Protocol):
    """Upkeep of records."""

    async def standing(self, collection: str, records: Sequence[RecordId]) -> Sequence[Standing]:
        """Say how these records stand; those that are not live are left out."""
        ...

    async def missing(self, collection: str, *, after: str | None = None, limit: int = 10) -> Sequence[Standing]:
        """List live records without a current vector as they were first put, by an index, after a key."""
        ...

    async def recount(self, collection: str, *, after: str | None = None, limit: int = 1000) -> tuple[int, str | None]:
        """See `Keeping.recount`."""
        ...

    async def purge(self, *, older_than: timedelta, limit: int = 1000, now: datetime | None = None) -> int:
        """Delete some spare vectors past retention; 0 when none is left."""
        ...

    async def finish(self, *, limit: int = 1000, now: datetime | None = None) -> int:
        """Do some of what a drop or a new `text_from` left to do; 0 when nothing is left."""
        ...

    async def sizes(self) -> Mapping[str, Sizes]:
        """Count records per collection."""
        ...


class Corpus(Declaring, RecordWriting, Reading, Embedding, CorpusKeeping, Lifetime, Protocol):  # the other half
    """Records and vectors whose jobs are elsewhere."""
