"""The two halves of a store: a corpus without a queue, and a queue without a corpus. `stores.pair` joins any two.

The corpus writes first and returns what the queue must know; only it has texts, and can say whether a vector fits. The
queue has only names of records, and decides by the rules of a job and the answers of the corpus.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from embedq.conditions import Selection
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
    """How a queue learns of collections and records. Calls may arrive in any order and more than once."""

    async def belong_to(self, corpus: str, *, note: bool = True) -> None:
        """Refuse to be the queue of any corpus but the one noted first; with `note`, one without gets this one."""
        ...

    async def declare(self, collection: Collection, *, now: datetime | None = None) -> None:
        """Register a collection with its space, priority and retry policy; jobs of another space are removed."""
        ...

    async def forget(self, collection: str, *, now: datetime | None = None) -> None:
        """Remove a collection with its jobs, if it exists."""
        ...

    async def enqueue(self, collection: str, arms: Sequence[Arm], *, now: datetime | None = None) -> Sequence[Queued]:
        """Arm the jobs as the rules decide; an open one keeps the higher priority. Unknown collection: NotFound."""
        ...

    async def withdraw(self, collection: str, records: Sequence[RecordId], *, now: datetime | None = None) -> None:
        """Cancel the open jobs of records that were deleted."""
        ...

    async def states(self, collection: str, records: Sequence[RecordId]) -> Mapping[RecordId, JobState]:
        """Read the states of these records' jobs; a record without a job is left out."""
        ...


class Attempting(Protocol):
    """The worker's side of a queue without texts."""

    async def lease(self, ask: Ask, *, now: datetime | None = None) -> Leased:
        """See `Leasing.lease`. Text, hash and whether a vector is current come from the corpus."""
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
        """Record how attempts ended, each with the corpus's answer about its record, and lease the next batch."""
        ...

    async def wait_for_work(self, timeout: timedelta) -> None:  # noqa: ASYNC109 a bound, not a cancellation
        """See `Leasing.wait_for_work`."""
        ...


class JobKeeping(Protocol):
    """Upkeep and manual operations on jobs."""

    async def rescue(
        self, *, dead: Sequence[WorkerId] = (), unrenewed_for: timedelta | None = None, now: datetime | None = None
    ) -> Sequence[Rescued]:
        """See `Keeping.rescue`."""
        ...

    async def purge(self, *, older_than: timedelta, limit: int = 1000, now: datetime | None = None) -> int:
        """Delete some finished jobs past retention; 0 when none is left."""
        ...

    async def finish(self, *, limit: int = 1000, now: datetime | None = None) -> int:
        """Do some of the work that a `forget` left; 0 when nothing is left."""
        ...

    async def replay_quota(self, *, older_than: timedelta, now: datetime | None = None) -> Sequence[RecordName]:
        """Revive dead letters with reason `quota` that are old enough; return their records."""
        ...

    async def revive(
        self, which: JobFilter, *, job: JobId | None = None, limit: int = 1000, now: datetime | None = None
    ) -> Sequence[RecordName]:
        """See `Operating.revive`; return the records whose jobs were armed."""
        ...

    async def cancel(
        self, job: JobId, current: ContentHash | None, *, tenant: str | None = None, now: datetime | None = None
    ) -> Job | None:
        """See `Operating.cancel`: it is cancelled for its record's current text."""
        ...


class JobLookups(Protocol):
    """Queries about jobs."""

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
        """Count the open jobs of a collection, and say how long the oldest has waited."""
        ...


class JobStore(
    Queueing, Attempting, Budgeting, JobKeeping, Placing, JobLookups, Pausing, Fleet, Lifetime, Protocol
):  # one half
    """A queue whose records are elsewhere. It may be wiped: ids and tokens are never reused."""


class RecordWriting(Protocol):
    """Writes records, and returns what the queue needs to know."""

    async def put(
        self,
        collection: str,
        records: Sequence[NewRecord],
        *,
        now: datetime | None = None,
        connection: object | None = None,
    ) -> Sequence[Written]:
        """Write records, all or none, on the caller's `connection` if given; results in order."""
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

    async def delete_where(
        self, collection: str, which: Selection, *, purge: bool = False, now: datetime | None = None
    ) -> Page[RecordId]:
        """See `Writing.delete_where`."""
        ...


class Embedding(Protocol):
    """Texts out, vectors in."""

    async def texts(
        self, space: SpaceId, records: Mapping[str, Sequence[RecordId]]
    ) -> Mapping[str, Mapping[RecordId, Text]]:
        """Read texts by collection; records that are not live, or of another space, are left out."""
        ...

    async def known(self, space: SpaceId, hashes: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
        """Look up vectors that were already paid for, in one round trip."""
        ...

    async def store(self, outcomes: Sequence[Outcome], *, now: datetime | None = None) -> Sequence[RecordAnswer | None]:
        """Store the vectors that fit, and say for each record whether it is live with the leased text.

        The statement that writes tests it. A vector that does not fit is kept for reuse, unless its text was erased.
        Done without a vector fits only if the stored one is current. None: another transaction holds the record.
        """
        ...

    async def give_up(self, collection: str, losses: Sequence[Loss]) -> None:
        """Note which texts are given up, for records that still have them."""
        ...

    async def try_again(self, collection: str, records: Sequence[RecordId]) -> None:
        """Clear the notes of texts that were given up."""
        ...


class CorpusKeeping(Protocol):
    """Upkeep of records."""

    async def identity(self) -> str:
        """Return what tells this corpus from every other; a backup that is restored has it too."""
        ...

    async def standing(self, collection: str, records: Sequence[RecordId]) -> Sequence[Standing]:
        """Read the state of these records; those that are not live are left out."""
        ...

    async def missing(self, collection: str, *, after: str | None = None, limit: int = 10) -> Sequence[Standing]:
        """List live records without a current vector after a key, in the order they were first put, by an index."""
        ...

    async def recount(self, collection: str, *, after: str | None = None, limit: int = 1000) -> tuple[int, str | None]:
        """See `Keeping.recount`."""
        ...

    async def purge(self, *, older_than: timedelta, limit: int = 1000, now: datetime | None = None) -> int:
        """Delete some spare vectors past retention; 0 when none is left."""
        ...

    async def finish(self, *, limit: int = 1000, now: datetime | None = None) -> int:
        """Do some of the work that a drop or a new `text_from` left; 0 when nothing is left."""
        ...

    async def sizes(self) -> Mapping[str, Sizes]:
        """Count records per collection."""
        ...


class Corpus(Declaring, RecordWriting, Reading, Embedding, CorpusKeeping, Lifetime, Protocol):  # the other half
    """Records and vectors whose jobs are elsewhere."""
