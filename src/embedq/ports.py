"""The contracts between the rooms. `testing/` proves them; an adapter that passes is an adapter.

Every `now` is the database's clock unless a test hands in a moment. A `Store` is both corpus and job store: where one
database holds both, `put` and `settle` are one transaction each.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, runtime_checkable

from embedq.attachment import Attached, Attachment
from embedq.model import (
    Ask,
    Budget,
    Collection,
    ContentHash,
    Counts,
    Declaration,
    EmbedderName,
    Freshness,
    HealthReport,
    Hit,
    Job,
    JobFilter,
    JobId,
    Lease,
    Leased,
    Missing,
    NewRecord,
    Outcome,
    Page,
    Patch,
    Process,
    Query,
    Receipt,
    Record,
    RecordId,
    Rescued,
    Settled,
    Space,
    SpaceId,
    Vector,
    Worker,
    WorkerId,
    WorkerInfo,
)


class Embedder(Protocol):
    """Turns texts into vectors. It translates its provider's errors into the kinds of `errors`."""

    name: EmbedderName
    dimensions: int | None  # None: not known before the first answer
    max_inputs: int  # texts per call
    remote: bool  # a request budget binds it

    async def embed(self, texts: Sequence[str]) -> Vector:
        """Answer with one finite float32 row per text, in their order."""
        ...

    def truncates(self, text: str) -> bool:
        """Say whether the model sees only the beginning of this text."""
        ...

    async def close(self) -> None:
        """Let go of connections and threads."""
        ...


class Declaring(Protocol):
    """The collections of a corpus."""

    async def declare(self, declaration: Declaration, *, now: datetime | None = None) -> Collection:
        """Declare a collection; the same declaration again changes nothing.

        Another `text_from` re-arms the records whose text changes. Another embedder over existing records: Conflict.
        """
        ...

    async def collections(self) -> Sequence[Collection]:
        """List the collections by name."""
        ...

    async def drop(self, collection: str, *, now: datetime | None = None) -> None:
        """Remove a collection with its records, vectors and jobs."""
        ...

    async def spaces(self) -> Sequence[Space]:
        """List the spaces that collections use."""
        ...

    async def learn(self, space: SpaceId, dimensions: int) -> int:
        """Fix a space's dimensions by its first good answer; answer with what is fixed."""
        ...


class Writing(Protocol):
    """The application's side: what is written arms jobs in the same breath."""

    async def put(
        self,
        collection: str,
        records: Sequence[NewRecord],
        *,
        now: datetime | None = None,
        connection: object | None = None,
    ) -> Sequence[Receipt]:
        """Write records and arm their jobs, all or none, on the caller's `connection` if given; receipts in order."""
        ...

    async def patch(self, collection: str, record: RecordId, patch: Patch, *, now: datetime | None = None) -> Receipt:
        """Merge a change into a live record; arm its job only if the text changed."""
        ...

    async def delete(
        self,
        collection: str,
        records: Sequence[RecordId],
        *,
        purge: bool = False,
        now: datetime | None = None,
        connection: object | None = None,
    ) -> Sequence[RecordId]:
        """Take records out of search and cancel their jobs; `purge` also removes text and vector for good.

        Answer with the records that were there. With the caller's `connection` it is part of the caller's transaction.
        """
        ...

    async def enqueue(
        self,
        collection: str,
        records: Sequence[RecordId],
        *,
        force: bool = False,
        job_priority: int | None = None,
        now: datetime | None = None,
    ) -> Sequence[Receipt]:
        """Arm jobs of live records: forced, or if the current text has no vector and no job on its way.

        A person's asking is as good as a revival: it arms what was cancelled or given up on. A job that is on its way
        keeps the higher priority. Unknown ids: NotFound.
        """
        ...


class Reading(Protocol):
    """What readers ask a corpus."""

    async def get(
        self, collection: str, records: Sequence[RecordId], *, with_vectors: bool = False, max_bytes: int | None = None
    ) -> Sequence[Record]:
        """Read live records that are there; several with over `max_bytes` of text and attributes: TooLarge."""
        ...

    async def records(
        self,
        collection: str,
        *,
        status: str | None = None,
        tenant: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
        max_bytes: int | None = None,
    ) -> Page[Record]:
        """List live records by id, those of status pending or failed as they were first put.

        A page ends once it has `max_bytes` of text and attributes; the list goes on at `next_cursor`, None at its end.
        """
        ...

    async def search_vector(self, collection: str, vector: Vector, query: Query) -> Sequence[Hit]:
        """Find the nearest records by cosine; a filter never cuts below min(k, matches)."""
        ...

    async def search_words(self, collection: str, words: str, query: Query) -> Sequence[Hit]:
        """Find records by words. The query is words, never syntax."""
        ...

    async def freshness(self, collection: str, *, now: datetime | None = None) -> Freshness:
        """Say how far vectors are behind."""
        ...


class Leasing(Protocol):
    """The worker's side of a job store. Everything is in batches."""

    async def lease(self, ask: Ask, *, now: datetime | None = None) -> Leased:
        """Lease up to `ask.limit` jobs of one of the asked spaces, best lane first; none while paused."""
        ...

    async def renew(self, leases: Sequence[Lease], *, span: timedelta, now: datetime | None = None) -> set[JobId]:
        """Extend leases from now; answer with the jobs that are still ours."""
        ...

    async def settle(
        self, outcomes: Sequence[Outcome], *, then: Ask | None = None, last: bool = False, now: datetime | None = None
    ) -> Settled:
        """Store vectors, record how attempts ended, and lease the next batch, in one transaction.

        An outcome whose token and nonce are no longer current changes nothing: the job is another worker's now. A job
        that somebody holds just now is named as busy and stays leased: renew it, and settle it again. With `last`
        nobody will: it is taken back by a rescue, and nothing is charged.
        """
        ...

    async def known(self, space: SpaceId, hashes: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
        """Look up vectors that were paid for already, in one round trip."""
        ...

    async def wait_for_work(self, timeout: timedelta) -> None:  # noqa: ASYNC109 a bound, not a cancellation
        """Return soon after jobs may have become ready, or were told to wait, here or elsewhere; or after `timeout`."""
        ...


class Budgeting(Protocol):
    """What a fleet may ask of a provider, and when it may not ask at all."""

    async def take(self, space: SpaceId, budget: Budget | None, *, now: datetime | None = None) -> timedelta:
        """Take one request of the fleet's budget. Zero: go. Else how long to wait; till then the space is held."""
        ...

    async def hold(self, space: SpaceId, span: timedelta, *, now: datetime | None = None) -> None:
        """Keep the whole fleet from asking this space's provider for a span; the longest hold wins."""
        ...

    async def budgets(self, *, now: datetime | None = None) -> Mapping[SpaceId, Mapping[str, Any]]:
        """Say per space how many requests the last interval saw and how long a hold still lasts, in seconds."""
        ...


class Keeping(Protocol):
    """What upkeep asks for, unasked by anybody."""

    async def rescue(
        self,
        *,
        dead: Sequence[WorkerId] = (),
        unrenewed_for: timedelta | None = None,
        now: datetime | None = None,
    ) -> Sequence[Rescued]:
        """Take back jobs whose lease ran out, whose worker is known to be dead, or that were not renewed for a span."""
        ...

    async def missing(self, collection: str, *, after: str | None = None, limit: int = 10) -> Sequence[Missing]:
        """List live records without a current vector as they were first put, by an index, after a key."""
        ...

    async def reconcile(self, collection: str, records: Sequence[RecordId], *, now: datetime | None = None) -> int:
        """Arm those of these records that still need a job; answer with how many did."""
        ...

    async def recount(self, collection: str, *, after: str | None = None, limit: int = 1000) -> tuple[int, str | None]:
        """Read some records beside their vectors, mend what is missing; answer how many, and after which to go on."""
        ...

    async def purge(self, *, older_than: timedelta, limit: int = 1000, now: datetime | None = None) -> int:
        """Delete some finished jobs and spare vectors past retention; 0 when none is left."""
        ...

    async def finish(self, *, limit: int = 1000, now: datetime | None = None) -> int:
        """Do some of what a drop or a new `text_from` left to do; 0 when nothing is left."""
        ...

    async def replay_quota(self, *, older_than: timedelta, now: datetime | None = None) -> int:
        """Revive dead letters with reason `quota` that are old enough."""
        ...


class Placing(Protocol):
    """Whether every open job stands in exactly one place: in the line, waiting, or under one lease."""

    async def misplaced(self, *, limit: int = 1000) -> Sequence[JobId]:
        """List open jobs that stand in none or in several, and closed ones that stand in one. It reads all jobs."""
        ...

    async def put_in_place(self, jobs: Sequence[JobId]) -> int:
        """Take those of these that are misplaced from wherever they stand, and queue the open ones; say how many."""
        ...


class Operating(Protocol):
    """What people who run it ask a job store."""

    async def counts(self) -> Mapping[str, Counts]:
        """Count per collection."""
        ...

    async def jobs(self, which: JobFilter, *, limit: int = 100, cursor: str | None = None) -> Page[Job]:
        """List jobs by their records, newest first; pending ones as they wait, then as they stand in line."""
        ...

    async def job(self, job: JobId) -> Job | None:
        """Read one job."""
        ...

    async def cancel(self, job: JobId, *, now: datetime | None = None) -> Job | None:
        """Cancel a pending or processing job; others stay as they are. None: no such job."""
        ...

    async def revive(
        self, which: JobFilter, *, job: JobId | None = None, limit: int = 1000, now: datetime | None = None
    ) -> int:
        """Arm dead letters (or one failed or cancelled job) again, some at a time; 0 when none is left."""
        ...

    async def dead_stats(self, *, tenant: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Group dead letters by collection, reason, category and code, commonest first, with the newest moment."""
        ...

    async def oldest_pending(self, *, now: datetime | None = None) -> Mapping[str, timedelta]:
        """Say per collection how long its oldest pending job waits."""
        ...


class Pausing(Protocol):
    """Whether anybody may lease at all: it holds for every machine and survives restarts."""

    async def pause(self) -> None:
        """Stop all leasing, everywhere."""
        ...

    async def resume(self) -> None:
        """Let leasing go on, and lift every hold."""
        ...

    async def paused(self) -> bool:
        """Say whether leasing is stopped."""
        ...

    async def resumes(self) -> int:
        """Count how often resume was called: a worker that sees it grow tries its halted embedders again."""
        ...


class Fleet(Protocol):
    """The registry of workers."""

    async def register(self, worker: WorkerInfo, *, now: datetime | None = None) -> None:
        """Enter a worker."""
        ...

    async def beat(self, worker: WorkerId, report: HealthReport, *, now: datetime | None = None) -> bool:
        """Note that a worker lives, and how it fares. False: it is not registered."""
        ...

    async def leave(self, worker: WorkerId) -> None:
        """Take a worker out."""
        ...

    async def workers(self, *, heartbeat: timedelta, now: datetime | None = None) -> Sequence[Worker]:
        """List the workers that were seen within a day."""
        ...


class Store(
    Declaring, Writing, Reading, Leasing, Budgeting, Keeping, Placing, Operating, Pausing, Fleet, Protocol
):  # what an application opens
    """A corpus and its queue."""

    async def close(self) -> None:
        """Flush, and let go of files, threads and connections."""
        ...

    async def check(self) -> None:
        """Answer, or raise a StoreError that says why the database cannot be used."""
        ...


@runtime_checkable
class Attaching(Protocol):
    """A store that can take over tables which are already there."""

    async def attach(
        self, declaration: Declaration, attachment: Attachment, *, dimensions: int | None = None, adopt: bool = False
    ) -> Attached:
        """Make a table a collection, changes from now on and the rows that are there; the same again walks again.

        Something else than before alters the attachment: only texts that changed by it are embedded. To adopt is to
        take the vectors in the target column for those of the rows' texts as of now, without a call. What does not fit
        is refused with a reason, and then nothing is changed.
        """
        ...

    async def detach(self, collection: str) -> None:
        """Leave a table as it was, and drop its collection; vectors in the table's own column stay."""
        ...

    async def attached(self) -> Sequence[Attached]:
        """List the attached tables, by collection."""
        ...

    async def gather(self, *, limit: int = 1000) -> int:
        """Take over some of what attached tables have noted; 0 when there is nothing to do."""
        ...


class Liveness(Protocol):
    """What this host knows of its own processes."""

    def me(self) -> Process:
        """Describe this process."""
        ...

    def is_dead(self, process: Process) -> bool:
        """True only if it ran on this host and surely runs no more."""
        ...
