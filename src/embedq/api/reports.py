"""What people who run it get back, as the OpenAPI page shows it."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from embedq.model import Health


class Facts(BaseModel):
    """Facts about the queue; more may be added."""

    model_config = ConfigDict(extra="allow")


class Tally(Facts):
    """A count, in all and per collection."""

    total: int
    by_collection: dict[str, int]


class Queue(BaseModel):
    """Jobs by status; those that retry are counted within pending."""

    pending: Tally
    processing: Tally
    completed: Tally
    failed: Tally
    cancelled: Tally


class Worker(Facts):
    """A worker as the registry knows it."""

    id: str
    host: str
    pid: int
    version: str
    embedder: str
    alive: bool
    health: Health
    started_at: datetime
    last_seen_at: datetime
    missed_heartbeats: int
    consecutive_failures: int
    last_success_at: datetime | None
    error_patterns: dict[str, int]
    jobs_processed: int
    jobs_succeeded: int
    jobs_failed: int


class Fleet(Facts):
    """The workers that were seen within a day."""

    num_workers: int = Field(description="Those that are alive, in the whole fleet.")
    workers: list[Worker]
    total_jobs_processed: int
    total_jobs_succeeded: int
    total_jobs_failed: int


class FleetPage(Fleet):
    """Some workers by their ids, where the list goes on, and the figures of all."""

    next_cursor: str | None


class QueueStatus(Facts):
    """The whole queue at one glance."""

    queue: Queue
    paused: bool
    health: Health
    notes: list[str] = Field(description="What a person should know.")
    workers: Fleet


class Switched(BaseModel):
    """What the queue is now."""

    status: Literal["paused", "resumed"]


class Drained(BaseModel):
    """How waiting for the queue ended."""

    status: Literal["drained", "timeout"]
    waited_for: Literal["all", "leased"] = Field(description="leased: the queue is paused, so nothing else can move.")
    elapsed: float = Field(description="Seconds.")
    remaining: int = Field(description="Of what was waited for.")
    pending: int = Field(description="Left in the queue, in a pause too.")


class Retried(BaseModel):
    """Dead letters that were armed again."""

    retried: Tally


class Replayed(BaseModel):
    """Dead letters that were armed again."""

    replayed: Tally


class Requeued(BaseModel):
    """Jobs that were taken back from workers that did not renew them."""

    requeued: Tally
    jobs: list[str]


class Registered(BaseModel):
    """A worker that was entered."""

    id: str


class Beaten(BaseModel):
    """A heartbeat that was noted."""

    id: str
    status: Literal["ok"] = "ok"


class Alive(BaseModel):
    """The process answers."""

    status: Literal["ok"] = "ok"
    version: str


class Ready(Facts):
    """Whether the database answers and the fleet can work; details only with a key."""

    status: Literal["ready", "not_ready"]
