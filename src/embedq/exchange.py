"""What a corpus and a job store exchange if they are two databases."""

from datetime import timedelta
from enum import Enum, auto
from typing import NamedTuple

from embedq.model import ContentHash, JobId, JobStatus, Reason, RecordId


class Cause(Enum):
    """Why the corpus passes a record to the queue."""

    PUT = auto()
    BY_HAND = auto()
    RECONCILE = auto()


class Written(NamedTuple):
    """A record as a corpus has just written it."""

    id: RecordId
    hash: ContentHash
    tenant: str | None
    priority: int  # the record's own, or the collection's
    same: bool  # it was already live with this text
    current: bool  # a vector of this text is stored for it
    given_up: bool  # its text was given up on


class Standing(NamedTuple):
    """A live record as the corpus sees it."""

    id: RecordId
    hash: ContentHash
    tenant: str | None
    current: bool
    given_up: bool
    key: str = ""  # of the list of missing vectors: pass the last one back to continue


class Text(NamedTuple):
    """A live record's text for a worker, read in one statement."""

    text: str
    hash: ContentHash
    current: bool
    erasure: int | None  # differs at the settle if the text was erased since


class Loss(NamedTuple):
    """A text that is given up on, and why."""

    id: RecordId
    hash: ContentHash
    reason: Reason


class Sizes(NamedTuple):
    """How many live records a collection has, by embedding status."""

    records: int
    missing: int
    truncated: int
    unsure: int = 0


class Arm(NamedTuple):
    """A record that may need a job, with what the corpus knows about it."""

    id: RecordId
    hash: ContentHash
    cause: Cause
    tenant: str | None = None
    priority: int | None = None  # None: the collection's
    same: bool = False
    current: bool = False
    given_up: bool = False
    forced: bool = False


class Queued(NamedTuple):
    """The result of an `Arm`: the record's job, if there is one, and whether it was armed."""

    job_id: JobId | None
    armed: bool


class JobState(NamedTuple):
    """A record's job."""

    job_id: JobId
    status: JobStatus
    reason: Reason | None
    hash: ContentHash  # of the text it was armed for, or ended with


class Waiting(NamedTuple):
    """How many jobs of a collection are open, and how long the oldest has waited."""

    jobs: int
    oldest: timedelta | None
