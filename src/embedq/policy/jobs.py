"""The state transitions of a job, decided from facts that a store has read. Numbers in brackets refer to the rules."""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import assert_never

from embedq.exchange import Arm, Cause
from embedq.model import (
    Done,
    ErrorCategory,
    Failed,
    Fault,
    JobStatus,
    Outcome,
    Reason,
    Released,
    Retry,
    Skipped,
)

CRASH_LIMIT = 5  # so many crashes make a job a dead letter [8]
SOLO_CRASHES = 2  # from so many crashes on, a job is leased alone [8]
THROTTLE_WINDOW = timedelta(hours=1)  # after refusals for so long without a success a job is a dead letter
MISSED_HEARTBEATS = 3  # after so many a worker counts as lost
SET_BACK = timedelta(seconds=1)  # a time further in the future was written before the clock was set back

_NOW = timedelta(0)


class Standing(Enum):
    """The relation of a job to a lease that settles it."""

    PROCESSING = auto()  # under this lease
    RESCUED = auto()  # taken back from it, and not leased since
    CRASHED = auto()  # given up, because this lease reached the crash limit
    FOREIGN = auto()  # no longer this lease's job


class RecordAnswer(Enum):
    """The corpus's answer about a record and the leased text: settle itself may not see the record [11]."""

    FITS = auto()  # live with this text
    CHANGED = auto()  # live with another
    GONE = auto()  # deleted, or not there


class Note(Enum):
    """What an attempt writes to its job besides a new status."""

    NOTHING = auto()
    FAULT = auto()  # what went wrong, uncharged
    FAILURE = auto()  # one more attempt, with its fault; ends a series of refusals
    REFUSAL = auto()  # the provider's refusal, with its fault, and its time if it is the first


class VectorFate(Enum):
    """What happens to a vector that was paid for."""

    NONE = auto()  # there is none
    STORED = auto()  # with its record
    KEPT = auto()  # as a spare vector: it fits no record now, but may fit one later
    DROPPED = auto()  # its text was erased


@dataclass(frozen=True, slots=True)
class Complete:
    """Completed: its hash is the lease's, it is no longer forced, its record is not given up."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """Pending, due now, uncharged."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Pending, due after a span."""

    after: timedelta
    note: Note = Note.NOTHING


@dataclass(frozen=True, slots=True)
class GiveUp:
    """A dead letter: its hash is the lease's, and the record notes which text was given up."""

    reason: Reason
    note: Note = Note.NOTHING


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancelled by deletion."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """Nothing changes: it is no longer the lease's job."""


Transition = Complete | Reopen | Wait | GiveUp | Cancel | Ignore  # closed: every `match` on it ends in assert_never


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """The facts about a job that decide how its attempt is settled."""

    standing: Standing
    armed: bool  # since the lease
    record: RecordAnswer
    current: bool = False  # a vector of the record's text is stored already
    erased: bool = False  # the text was erased since the lease
    refused_for: timedelta | None = None  # since its first refusal or the embedder's last success; None: no refusal


def standing(status: JobStatus | None, *, under: bool, last: bool, reason: Reason | None = None) -> Standing:
    """Classify a job's relation to a lease [5]: does it still hold the job, or was it the last that did [1]?"""
    if under and status is JobStatus.PROCESSING:
        return Standing.PROCESSING
    if last and status is JobStatus.PENDING:
        return Standing.RESCUED
    if last and status is JobStatus.FAILED and reason is Reason.CRASH_LOOP:
        return Standing.CRASHED
    return Standing.FOREIGN


def settle(  # noqa: PLR0911 one return per row, like the table
    outcome: Outcome, facts: AttemptFacts
) -> Transition:
    """Decide the transition of a job by its attempt's outcome [5]."""
    if not _is_taken(outcome, facts.standing):
        return Ignore()
    overtaken = facts.armed or facts.record is not RecordAnswer.FITS
    match outcome:
        case Done():
            return _done(outcome, facts)
        case Skipped():
            return Reopen() if facts.armed else Cancel()
        case Retry() | Failed() | Released() if overtaken:
            return Reopen()
        case Retry():
            return Wait(outcome.after, Note.FAILURE)
        case Failed():
            return GiveUp(outcome.reason, Note.FAILURE)
        case Released():
            return _released(outcome, facts.refused_for)
        case _:
            assert_never(outcome)


def vector_fate(outcome: Outcome, facts: AttemptFacts) -> VectorFate:
    """Decide what happens to an attempt's vector [5, 6]. The statement that writes tests again whether it fits."""
    if not isinstance(outcome, Done) or outcome.vector is None:
        return VectorFate.NONE
    if _is_taken(outcome, facts.standing) and facts.record is RecordAnswer.FITS:
        return VectorFate.STORED
    return VectorFate.DROPPED if facts.erased else VectorFate.KEPT


def _is_taken(outcome: Outcome, standing_: Standing) -> bool:
    """Say whether an outcome may change a job: a late Done is accepted as long as the job was not leased since."""
    match standing_:
        case Standing.PROCESSING:
            return True
        case Standing.RESCUED | Standing.CRASHED:
            return isinstance(outcome, Done)
        case Standing.FOREIGN:
            return False
        case _:
            assert_never(standing_)


def _done(outcome: Done, facts: AttemptFacts) -> Transition:
    if facts.record is RecordAnswer.GONE and not facts.armed:
        return Cancel()
    has_vector = outcome.vector is not None or facts.current
    if facts.armed or facts.record is not RecordAnswer.FITS or not has_vector:
        return Reopen()
    return Complete()


def _released(outcome: Released, refused_for: timedelta | None) -> Transition:
    """Release a job; if its provider has refused it for the whole throttle window, it is a dead letter."""
    if outcome.refused is None:
        return Wait(outcome.after) if outcome.after > _NOW else Reopen()
    if refused_for is not None and refused_for >= THROTTLE_WINDOW:
        return GiveUp(Reason.QUOTA, Note.REFUSAL)
    return Wait(outcome.after, Note.REFUSAL)


def fault_in(outcome: Outcome) -> Fault | None:
    """Return the fault of an outcome, if it has one."""
    match outcome:
        case Retry() | Failed():
            return outcome.fault
        case Released():
            return outcome.refused
        case Done() | Skipped():
            return None
        case _:
            assert_never(outcome)


def is_open(status: JobStatus | None) -> bool:
    """Say whether a job is pending or processing."""
    return status in (JobStatus.PENDING, JobStatus.PROCESSING)


def put_arms(status: JobStatus | None, *, same: bool, has_vector: bool) -> bool:
    """Say whether a put arms the record's job, which may be None [3].

    `same`: the record was already live with this text. `has_vector`: a vector of this text is stored for it.
    """
    return not same and not (has_vector and not is_open(status))


def enqueue_arms(status: JobStatus | None, *, forced: bool, current: bool) -> bool:
    """Say whether an enqueue arms a live record's job: forced, or with neither vector nor open job."""
    return forced or not (current or is_open(status))


def needs_job(
    status: JobStatus | None, *, reason: Reason | None = None, same_text: bool = False, given_up: bool = False
) -> bool:
    """Say whether the reconciler arms a job for a live record without a current vector [10].

    `same_text`: the job is about the record's text. `given_up`: the record notes that its text was given up.
    """
    match status:
        case None:
            return not given_up
        case JobStatus.COMPLETED:
            return True
        case JobStatus.CANCELLED if reason is Reason.RECORD_DELETED:
            return True
        case JobStatus.FAILED | JobStatus.CANCELLED:
            return not same_text
        case JobStatus.PENDING | JobStatus.PROCESSING | JobStatus.RETRYING:
            return False
        case _:
            assert_never(status)


def arms(ask: Arm, status: JobStatus | None, *, reason: Reason | None, same_text: bool) -> bool:
    """Say whether a request from a corpus in another database arms a job [3, 10, 11].

    A put of the same text arms nothing, unless an earlier put was lost on its way to the queue: the reconciler would
    find that too.
    """
    needed = not ask.current and needs_job(status, reason=reason, same_text=same_text, given_up=ask.given_up)
    match ask.cause:
        case Cause.PUT:
            return needed if ask.same else put_arms(status, same=False, has_vector=ask.current)
        case Cause.BY_HAND:
            return enqueue_arms(status, forced=ask.forced, current=ask.current)
        case Cause.RECONCILE:
            return needed
        case _:
            assert_never(ask.cause)


def is_lost(*, left: timedelta, unrenewed: timedelta, dead: bool, bound: timedelta | None) -> bool:
    """Say whether to take a lease back [8]: it expired, its worker is dead, or it was not renewed within `bound`.

    One that was renewed in the future is lost too: the clock was set back, so its expiry is unknown.
    """
    return left <= _NOW or unrenewed < -SET_BACK or dead or (bound is not None and unrenewed >= bound)


def rescue(crashes: int, *, armed: bool, idle: bool = False) -> tuple[int, Reopen | GiveUp]:
    """Return a job's crash count and transition when its lease is taken back [8].

    A crash does not count against a text newer than the lease (`armed`), nor if no worker ran (`idle`).
    """
    counted = crashes if armed or idle else crashes + 1
    return counted, GiveUp(Reason.CRASH_LOOP, Note.FAULT) if counted >= CRASH_LIMIT else Reopen()


def crash_fault(crashes: int) -> Fault:
    """Build the fault of a job that was given up because it crashed workers."""
    message = f"its worker died {crashes} times while holding this job"
    return Fault(ErrorCategory.PERMANENT, Reason.CRASH_LOOP, message)


def can_cancel(status: JobStatus | None) -> bool:
    """Say whether a caller or a deletion may cancel a job [9]."""
    return is_open(status)


def can_revive(status: JobStatus | None, *, live: bool, named: bool) -> bool:
    """Say whether a job of a live record may be revived: a dead letter, or a cancelled one if named by id."""
    return live and (status is JobStatus.FAILED or (named and status is JobStatus.CANCELLED))


def is_due(*, left: timedelta, waited: timedelta) -> bool:
    """Say whether a waiting job is due [4]: its time has come, or its wait begins in the future."""
    return left <= _NOW or waited < -SET_BACK
