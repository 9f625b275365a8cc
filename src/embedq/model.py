"""The data types of embedq, without logic."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import IntEnum, StrEnum
from typing import Any, Generic, NamedTuple, NewType, TypeVar

import numpy as np
from numpy.typing import NDArray

from embedq.conditions import Filter

JobId = NewType("JobId", str)
RecordId = NewType("RecordId", str)  # chosen by the application, unique within its collection
WorkerId = NewType("WorkerId", str)
SpaceId = NewType("SpaceId", str)  # a space's name, the same in every database
ContentHash = NewType("ContentHash", bytes)  # SHA-256 of the text in UTF-8
Vector = NDArray[np.float32]
Attributes = Mapping[str, Any]  # a JSON object
T = TypeVar("T")


class Priority(IntEnum):
    """The lane a job waits in. Higher lanes go first."""

    LOW = 0
    NORMAL = 1
    HIGH = 2
    URGENT = 3


class JobStatus(StrEnum):
    """Where a job stands. Only `RETRYING` is not stored: it is what a pending job with failures behind it is called."""

    PENDING = "pending"
    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    RETRYING = "retrying"


class EmbeddingStatus(StrEnum):
    """Where a record stands: has its current text a vector?"""

    PENDING = "pending"
    EMBEDDED = "embedded"
    FAILED = "failed"


class Reason(StrEnum):
    """Why a job ended without a vector."""

    PERMANENT_ERROR = "permanent_error"
    MAX_RETRIES_EXCEEDED = "max_retries_exceeded"
    CRASH_LOOP = "crash_loop"
    QUOTA = "quota"
    RECORD_DELETED = "record_deleted"
    CANCELLED = "cancelled"


class ErrorCategory(StrEnum):
    """Whose fault an error is, and so what is done about it."""

    TRANSIENT = "TRANSIENT"
    PERMANENT = "PERMANENT"
    CRITICAL = "CRITICAL"


class Health(StrEnum):
    """The health of a worker."""

    HEALTHY = "HEALTHY"
    DEGRADED = "DEGRADED"
    CRITICAL = "CRITICAL"


class SearchMode(StrEnum):
    """How a query is answered."""

    AUTO = "auto"
    SEMANTIC = "semantic"
    KEYWORD = "keyword"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderName:
    """An embedder as people name it: `local`, `fake`, `openai:MODEL`, `openai:MODEL@768`."""

    provider: str
    model: str
    dimensions: int | None = None  # None: known by the embedder, or learned from its first valid answer

    def __str__(self) -> str:
        """Format the name as in settings."""
        asked = f"@{self.dimensions}" if self.dimensions else ""
        return f"{self.provider}:{self.model}{asked}" if self.model else f"{self.provider}{asked}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Provider, model, dimensions and version: vectors of two spaces are never compared."""

    embedder: EmbedderName  # with the dimensions that were requested
    dimensions: int | None  # fixed by the first valid answer, None before it
    version: int = 1

    @property
    def id(self) -> SpaceId:
        """Identify it by what was requested. Databases compute the same from their columns."""
        asked = self.embedder.dimensions or 0
        return SpaceId(f"{self.embedder.provider}:{self.embedder.model}@{asked}/{self.version}")

    def __str__(self) -> str:
        """Name the space in answers and logs."""
        return f"{self.embedder}" + (f"@{self.dimensions}" if self.dimensions and not self.embedder.dimensions else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long a job waits after a failure, and how often it may fail."""

    base: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    cap: timedelta = timedelta(seconds=300)
    jitter: float = 0.2
    max_attempts: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """What a collection is declared to be."""

    name: str
    embedder: EmbedderName
    text_from: tuple[str, ...] | None = None  # attribute names, joined in order; None: a record has its own text
    priority: Priority = Priority.NORMAL
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    language: str = "english"  # by which words are stemmed; simple: not at all


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """A declared collection as the store holds it."""

    declaration: Declaration
    space: Space
    created_at: datetime


class NewRecord(NamedTuple):
    """A record as an application passes it in. A tuple, because there are thousands per call."""

    id: RecordId
    text: str | None = None
    attributes: Attributes | None = None
    priority: Priority | None = None  # None: the collection's
    tenant: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A partial change of a record: attributes are merged, a null removes one."""

    text: str | None = None
    attributes: Attributes | None = None
    priority: Priority | None = None
    tenant: str | None = None  # not a change, but the tenant that the record must belong to


class Receipt(NamedTuple):
    """What a writer gets back for one record. A tuple, like the record."""

    id: RecordId
    embedding_status: EmbeddingStatus
    job_id: JobId | None  # None: there is no job and nothing to do


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record as readers see it."""

    id: RecordId
    collection: str
    text: str
    attributes: Attributes
    tenant: str | None
    hash: ContentHash
    embedding_status: EmbeddingStatus
    reason: Reason | None  # why there is no vector, if its text was given up
    truncated: bool  # the vector covers the beginning of the text only
    job_id: JobId | None
    created_at: datetime
    updated_at: datetime
    vector: Vector | None = None  # only if asked for


class Lease(NamedTuple):
    """A worker's right to one job until `until`. A tuple, because a hundred are made per batch."""

    job_id: JobId
    collection: str
    record_id: RecordId
    space: SpaceId
    text: str | None  # None: the record was deleted
    hash: ContentHash  # of this text, read with it; the vector is stored under it
    current: bool  # a vector of this text is stored already
    forced: bool  # embed even so, and from the provider
    attempts: int
    crashes: int
    retry: RetryPolicy
    token: int  # grows with every lease; every later write must carry it,
    nonce: int  # and this: after a failover or a restore a token may repeat
    until: datetime
    erasure: int | None = None  # read with the text; differs at the settle if the text was erased since


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A worker's request for leases."""

    worker: WorkerId
    spaces: Sequence[SpaceId]  # those it can embed now; the batch is from one of them
    limit: int
    span: timedelta
    prefetch: bool = False  # True: the worker holds other work, so it gets no jobs that crashed workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Leased:
    """The answer to an `Ask`: leases of one space, or none and a hint when to ask again."""

    leases: Sequence[Lease] = ()
    again_after: timedelta | None = None  # until the next waiting job is due; None: nothing waits


@dataclass(frozen=True, slots=True)
class Fault:
    """An error as it is kept with a job."""

    category: ErrorCategory
    code: str
    message: str
    stack: str | None = None


class Done(NamedTuple):
    """The attempt produced a vector, or none was needed. A tuple, like the lease."""

    lease: Lease
    vector: Vector | None = None  # None: the stored vector is current
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempt failed and counts; the next is due after a span."""

    lease: Lease
    fault: Fault
    after: timedelta


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt failed permanently: a dead letter."""

    lease: Lease
    fault: Fault
    reason: Reason


@dataclass(frozen=True, slots=True)
class Released:
    """The attempt did not happen, or does not count: the job is handed back."""

    lease: Lease
    after: timedelta = timedelta(0)
    refused: Fault | None = None  # the provider's refusal; None: no provider was called


@dataclass(frozen=True, slots=True)
class Skipped:
    """The record was deleted: nothing to embed."""

    lease: Lease


Outcome = Done | Retry | Failed | Released | Skipped  # closed: every `match` on it ends in assert_never


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """The answer to settle: the jobs that were still ours, and the next leases if they were asked for."""

    jobs: frozenset[JobId]
    busy: frozenset[JobId] = frozenset()  # still ours, but locked by another transaction: keep them and retry
    next: Leased = field(default_factory=Leased)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job as people see it."""

    id: JobId
    collection: str
    record_id: RecordId
    tenant: str | None  # the record's
    space: str
    status: JobStatus
    priority: Priority
    attempts: int
    max_attempts: int
    crashes: int
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    lease_until: datetime | None
    worker_id: WorkerId | None
    processing_time_ms: int | None
    reason: Reason | None
    error: Fault | None
    first_attempt_at: datetime | None
    last_attempt_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Selects jobs."""

    status: JobStatus | None = None
    collection: str | None = None
    reason: Reason | None = None
    tenant: str | None = None  # of their records


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """One page of a list, and the cursor of the next."""

    items: Sequence[T]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescued:
    """A job taken back from a lease that ran out or whose owner is dead."""

    job_id: JobId
    collection: str
    record_id: RecordId
    worker_id: WorkerId | None
    crashes: int
    status: JobStatus  # pending, or failed at the crash limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """A live record without a vector of its current text, and its job's status."""

    key: str  # opaque; pass the last one back to continue
    id: RecordId
    needs_job: bool  # by the rules of reconcile: neither queued, nor given up, nor cancelled by a person


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Jobs by collection and stored status, with the collection's live records and those without a current vector."""

    pending: int = 0
    processing: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    records: int = 0
    missing: int = 0
    truncated: int = 0
    unsure: int = 0  # records of a table that cannot be followed: their texts may have changed

    @property
    def uncovered(self) -> int:
        """Records that are not known to have a vector of their current text."""
        return max(self.missing, self.unsure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How far a collection's vectors are behind its records."""

    coverage: float  # 1.0: every live record is known to have a vector of its current text
    pending: int
    oldest_pending: timedelta | None
    trouble: str | None = None  # why the current texts are not known


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to look for among the records of a collection."""

    k: int = 10
    filter: Filter | None = None  # of their attributes
    tenant: str | None = None
    space: Space | None = None  # of the query's vector; a collection with another: Conflict
    bare: bool = False  # only ids and scores: text and attributes of the hits are not read


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A record that was found."""

    id: RecordId
    score: float  # semantic: the cosine
    text: str
    attributes: Attributes
    stale: bool  # the vector that found it belongs to an earlier text, or may, since its table cannot be followed
    share: float | None = None  # of what the query's words say, how much it holds; None: found by its vector


class Shown(NamedTuple):
    """What an answer shows of a record."""

    id: RecordId
    text: str
    attributes: Attributes
    current: bool  # its vector is that of this text


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Hits, how they were found, and how fresh they are."""

    hits: Sequence[Hit]
    mode_used: SearchMode
    reason: str | None  # why it is not the requested mode
    freshness: Freshness


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process on a host, distinguishable from a later one with the same pid."""

    host: str
    boot: str  # changes when the machine restarts
    pid: int
    born: str  # the process's start time, in the kernel's clock ticks


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerInfo:
    """A worker as it registers itself."""

    id: WorkerId
    process: Process
    version: str
    embedder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthReport:
    """A worker's health as it reports it with each heartbeat."""

    health: Health = Health.HEALTHY
    consecutive_failures: int = 0
    succeeded: int = 0
    failed: int = 0
    last_success_at: datetime | None = None
    error_patterns: Mapping[str, int] = field(default_factory=dict)  # error code: count since the last success
    halted: Sequence[str] = ()  # embedders that need an operator
    troubles: Mapping[str, str] = field(default_factory=dict)  # errors of halted, resting or failing embedders


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A worker as the registry knows it."""

    info: WorkerInfo
    started_at: datetime
    seen_at: datetime
    missed_heartbeats: int
    alive: bool
    report: HealthReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The most requests and tokens in any span of this length. None: unlimited."""

    requests: int | None
    interval: timedelta
    tokens: int | None = None
