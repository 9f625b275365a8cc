"""The rules of a job: what becomes of it, told from facts that a store has read. Numbers in brackets name the rules."""

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
THROTTLE_WINDOW = timedelta(hours=1)  # a provider that refuses a job so long without one success: a dead letter
MISSED_HEARTBEATS = 3  # after so many a worker counts as lost
SET_BACK = timedelta(seconds=1)  # what begins further ahead of now was written before the clock was set back

_NOW = timedelta(0)


class Standing(Enum):
    """How a job stands to the lease that speaks of it."""

    PROCESSING = auto()  # under this lease
    RESCUED = auto()  # taken back from it, and leased to nobody since
    CRASHED = auto()  # given up on, because this lease was one crash too many
    FOREIGN = auto()  # not its business any more


class RecordAnswer(Enum):
    """What the corpus says of a record and the text that was leased: settle itself may not see the record [11]."""

    FITS = auto()  # live with this text
    CHANGED = auto()  # live with another
    GONE = auto()  # deleted, or no more


class Note(Enum):
    """What an attempt leaves on its job beside a new status."""

    NOTHING = auto()
    FAULT = auto()  # what went wrong, uncharged
    FAILURE = auto()  # one attempt more, with its fault; the provider has not refused it since
    REFUSAL = auto()  # the provider's own "not now", with its fault; since when, if it is the first


class VectorFate(Enum):
    """Where a vector goes that was paid for."""

    NONE = auto()  # there is none
    STORED = auto()  # to its record
    KEPT = auto()  # to the cache: it fits no record now, and may fit one later
    DROPPED = auto()  # its text was erased


@dataclass(frozen=True, slots=True)
class Complete:
    """Completed: its hash is the lease's, it is forced no longer, its record not given up on."""


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
    """A dead letter: its hash is the lease's, and the record notes what was given up on."""

    reason: Reason
    note: Note = Note.NOTHING


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancelled by deletion."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """Nothing changes: the job is not the lease's business any more."""


Transition = Complete | Reopen | Wait | GiveUp | Cancel | Ignore  # closed: every `match` on it ends in assert_never


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """What must be known of a job when an attempt of it has ended."""

    standing: Standing
    armed: bool  # since the lease
    record: RecordAnswer
    current: bool = False  # a vector of the record's text is stored already
    erased: bool = False  # the text was removed for good since the lease
    refused_for: timedelta | None = None  # since its first refusal, or a success of its embedder; None: no refusal yet


def standing(status: JobStatus | None, *, under: bool, last: bool, reason: Reason | None = None) -> Standing:
    """Say how a job stands to a lease [5]: does it name the job still, and was it the last that did [1]?"""
    if under and status is JobStatus.PROCESSING:
        return Standing.PROCESSING
    if last and status is JobStatus.PENDING:
        return Standing.RESCUED
    if last and status is JobStatus.FAILED and reason is Reason.CRASH_LOOP:
        return Standing.CRASHED
    return Standing.FOREIGN


def settle(  # noqa: PLR0911 one return per row reads as the table it is
    outcome: Outcome, facts: AttemptFacts
) -> Transition:
    """Say what an attempt's outcome makes of its job [5]."""
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
    """Say where an attempt's vector goes [5, 6]. Whether it fits is tested again in the statement that writes."""
    if not isinstance(outcome, Done) or outcome.vector is None:
        return VectorFate.NONE
    if _is_taken(outcome, facts.standing) and facts.record is RecordAnswer.FITS:
        return VectorFate.STORED
    return VectorFate.DROPPED if facts.erased else VectorFate.KEPT


def _is_taken(outcome: Outcome, standing_: Standing) -> bool:
    """Say whether a job may change by an outcome: a late Done is taken as long as nobody leased the job since."""
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
    """Hand a job back; a provider that has refused it for the whole throttle window makes it a dead letter."""
    if outcome.refused is None:
        return Wait(outcome.after) if outcome.after > _NOW else Reopen()
    if refused_for is not None and refused_for >= THROTTLE_WINDOW:
        return GiveUp(Reason.QUOTA, Note.REFUSAL)
    return Wait(outcome.after, Note.REFUSAL)


def fault_in(outcome: Outcome) -> Fault | None:
    """Say what went wrong in an attempt, as far as its outcome says."""
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
    """Say whether a job is on its way."""
    return status in (JobStatus.PENDING, JobStatus.PROCESSING)


def put_arms(status: JobStatus | None, *, same: bool, has_vector: bool) -> bool:
    """Say whether a put arms the record's job, which may be None [3].

    `same`: the record was live with this text already. `has_vector`: a vector of this text is stored for it.
    """
    return not same and not (has_vector and not is_open(status))


def enqueue_arms(status: JobStatus | None, *, forced: bool, current: bool) -> bool:
    """Say whether asking by hand arms a live record's job: forced, or with neither vector nor job."""
    return forced or not (current or is_open(status))


def needs_job(
    status: JobStatus | None, *, reason: Reason | None = None, same_text: bool = False, given_up: bool = False
) -> bool:
    """Say whether a live record without a current vector is to be given a job by the reconciler [10].

    `same_text`: the job speaks of the record's text. `given_up`: the record remembers that its text was given up on.
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
    """Say whether a job is armed by what a corpus in another database says of its record [3, 10, 11].

    A put of the same text arms nothing by itself, but what a put before it may have lost on its way to the queue: the
    reconciler would find it too.
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
    """Say whether a lease is to be taken back [8]: it ran out, its worker is dead, or it was not renewed for a bound.

    One that was renewed in the future is lost too: the clock was set back, and nobody can say when it ran out.
    """
    return left <= _NOW or unrenewed < -SET_BACK or dead or (bound is not None and unrenewed >= bound)


def rescue(crashes: int, *, armed: bool, idle: bool = False) -> tuple[int, Reopen | GiveUp]:
    """Say how many crashes a job has when its lease is taken back, and what becomes of it [8].

    A crash says nothing of a text that is newer than the lease (`armed`), nor is it one if nobody worked (`idle`).
    """
    counted = crashes if armed or idle else crashes + 1
    return counted, GiveUp(Reason.CRASH_LOOP, Note.FAULT) if counted >= CRASH_LIMIT else Reopen()


def crash_fault(crashes: int) -> Fault:
    """Write down why a job that took its workers down was given up on."""
    message = f"its worker died {crashes} times while holding this job"
    return Fault(ErrorCategory.PERMANENT, Reason.CRASH_LOOP, message)


def can_cancel(status: JobStatus | None) -> bool:
    """Say whether a person, or a deletion, may cancel a job [9]."""
    return is_open(status)


def can_revive(status: JobStatus | None, *, live: bool, named: bool) -> bool:
    """Say whether a job of a live record may be armed again by hand: a dead letter, or a cancelled one by its name."""
    return live and (status is JobStatus.FAILED or (named and status is JobStatus.CANCELLED))


def is_due(*, left: timedelta, waited: timedelta) -> bool:
    """Say whether a waiting job may go [4]: its moment has come, or its wait begins in the future."""
    return left <= _NOW or waited < -SET_BACK
