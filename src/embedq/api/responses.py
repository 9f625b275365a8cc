"""What applications get back, as the OpenAPI page shows it."""

from datetime import datetime
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from embedq.model import EmbeddingStatus, ErrorCategory, JobStatus, Reason, SearchMode

PriorityName = Literal["urgent", "high", "normal", "low"]


def _listed(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else value


class Receipt(BaseModel):
    """What a writer gets back for one record."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    embedding_status: EmbeddingStatus
    job_id: str | None = Field(description="null: there is no job, and nothing to do.")


class Receipts(BaseModel):
    """One receipt per record, in the order they were sent."""

    records: list[Receipt]


class Deleted(BaseModel):
    """A record that is gone from search."""

    id: str
    deleted: bool = True
    purged: bool = Field(description="Its text and vector are gone for good.")


class Record(BaseModel):
    """A record as readers see it."""

    model_config = ConfigDict(from_attributes=True)

    id: str
    collection: str
    text: str
    attributes: dict[str, Any]
    tenant: str | None
    embedding_status: EmbeddingStatus
    reason: Reason | None = Field(description="Why there is no vector, if its text was given up on.")
    truncated: bool = Field(description="The vector stands for the beginning of the text only.")
    job_id: str | None
    created_at: datetime
    updated_at: datetime


class RecordWithVector(Record):
    """A record and its vector."""

    vector: Annotated[list[float] | None, BeforeValidator(_listed)] = Field(
        default=None, description="Only with `?include=vector`."
    )


class RecordPage(BaseModel):
    """Some records, and where the list goes on."""

    model_config = ConfigDict(from_attributes=True)

    records: list[Record] = Field(validation_alias="items")
    next_cursor: str | None


class RetryPolicy(BaseModel):
    """How long a job waits after a failure, and how often it may fail."""

    base_seconds: float
    factor: float
    cap_seconds: float
    jitter: float
    max_attempts: int


class Collection(BaseModel):
    """A declared collection."""

    name: str
    text_from: list[str] | None
    embedder: str
    space: str
    dimensions: int | None = Field(description="null: not known before the first vector.")
    priority: PriorityName
    retry: RetryPolicy
    created_at: datetime


class Collections(BaseModel):
    """Some collections by name, and where the list goes on."""

    collections: list[Collection]
    next_cursor: str | None


class Dropped(BaseModel):
    """A collection that is gone."""

    name: str
    deleted: bool = True


class Hit(BaseModel):
    """A record that was found."""

    id: str
    score: float = Field(description="Semantic: the cosine.")
    text: str
    attributes: dict[str, Any]
    stale: bool = Field(description="The vector that found it belongs to an earlier text, or may.")


class Freshness(BaseModel):
    """How far the collection's vectors are behind."""

    coverage: float = Field(description="1.0: every record is known to have a vector of its current text.")
    pending: int
    oldest_pending_seconds: float | None
    trouble: str | None = Field(
        description="Why nobody knows what the current texts are: the attached table cannot be followed."
    )


class Found(BaseModel):
    """Hits, how they were found, and how fresh they are."""

    hits: list[Hit]
    mode_used: SearchMode
    reason: str | None = Field(description="Why it is not the mode that was asked for.")
    freshness: Freshness


class JobError(BaseModel):
    """The last error of a job."""

    category: ErrorCategory
    code: str
    message: str
    stack: str | None


class Job(BaseModel):
    """A job as people see it."""

    id: str
    collection: str
    record_id: str
    space: str
    status: JobStatus
    priority: PriorityName
    attempts: int
    max_attempts: int
    crashes: int
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    lease_until: datetime | None
    worker_id: str | None
    processing_time_ms: int | None
    reason: Reason | None
    error: JobError | None


class JobPage(BaseModel):
    """Some jobs, and where the list goes on."""

    jobs: list[Job]
    next_cursor: str | None


class DeadLetter(Job):
    """A failed job, with the span it was tried in."""

    first_attempt_at: datetime | None
    last_attempt_at: datetime | None


class DeadPage(BaseModel):
    """Some dead letters, and where the list goes on."""

    jobs: list[DeadLetter]
    next_cursor: str | None


class DeadStats(BaseModel):
    """Dead letters grouped by their causes."""

    total: int
    causes: list[dict[str, Any]] = Field(
        description="collection, reason, category, code, count, the newest moment, and a message as example."
    )
