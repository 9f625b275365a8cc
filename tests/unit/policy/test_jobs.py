"""The rules of a job as tables."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import numpy as np
import pytest

from embedq.exchange import Arm, Cause
from embedq.model import (
    ContentHash,
    Done,
    ErrorCategory,
    Failed,
    Fault,
    JobId,
    JobStatus,
    Lease,
    Outcome,
    Reason,
    RecordId,
    Released,
    Retry,
    RetryPolicy,
    Skipped,
    SpaceId,
)
from embedq.policy.jobs import (
    CRASH_LIMIT,
    SET_BACK,
    THROTTLE_WINDOW,
    AttemptFacts,
    Cancel,
    Complete,
    GiveUp,
    Ignore,
    Note,
    RecordAnswer,
    Reopen,
    Standing,
    Transition,
    VectorFate,
    Wait,
    arms,
    can_cancel,
    can_revive,
    crash_fault,
    enqueue_arms,
    is_due,
    is_lost,
    needs_job,
    put_arms,
    rescue,
    settle,
    standing,
    vector_fate,
)

PENDING, PROCESSING, COMPLETED = JobStatus.PENDING, JobStatus.PROCESSING, JobStatus.COMPLETED
FAILED, CANCELLED = JobStatus.FAILED, JobStatus.CANCELLED
FITS, CHANGED, GONE = RecordAnswer.FITS, RecordAnswer.CHANGED, RecordAnswer.GONE
MINUTE = timedelta(minutes=1)
ZERO = timedelta(0)
FAULT = Fault(ErrorCategory.TRANSIENT, "timeout", "too slow")
LEASE = Lease(
    job_id=JobId("7"),
    collection="notes",
    record_id=RecordId("n1"),
    space=SpaceId(1),
    text="text",
    hash=ContentHash(b"h" * 32),
    current=False,
    forced=False,
    attempts=0,
    crashes=0,
    retry=RetryPolicy(),
    token=1,
    nonce=5,
    until=datetime(2030, 1, 1, tzinfo=UTC),
)
VECTOR = np.ones(4, dtype=np.float32)

DONE = Done(LEASE, VECTOR)
NEEDLESS = Done(LEASE)  # the stored vector was found to be current
RETRY = Retry(LEASE, FAULT, MINUTE)
DEAD = Failed(LEASE, FAULT, Reason.PERMANENT_ERROR)
RELEASED = Released(LEASE)
LATER = Released(LEASE, MINUTE)
REFUSED = Released(LEASE, MINUTE, FAULT)
SKIPPED = Skipped(LEASE)
OUTCOMES = (DONE, NEEDLESS, RETRY, DEAD, RELEASED, LATER, REFUSED, SKIPPED)


def facts(
    *,
    stands: Standing = Standing.PROCESSING,
    armed: bool = False,
    record: RecordAnswer = FITS,
    current: bool = False,
    erased: bool = False,
    refused_for: timedelta | None = None,
) -> AttemptFacts:
    return AttemptFacts(
        standing=stands, armed=armed, record=record, current=current, erased=erased, refused_for=refused_for
    )


@pytest.mark.parametrize(
    ("status", "under", "last", "reason", "expected"),
    [
        (PROCESSING, True, True, None, Standing.PROCESSING),
        (PROCESSING, True, False, None, Standing.PROCESSING),  # the row notes a lease only when it ends
        (PROCESSING, False, True, None, Standing.FOREIGN),
        (PROCESSING, False, False, None, Standing.FOREIGN),
        (PENDING, False, True, None, Standing.RESCUED),
        (PENDING, False, False, None, Standing.FOREIGN),
        (FAILED, False, True, Reason.CRASH_LOOP, Standing.CRASHED),
        (FAILED, False, False, Reason.CRASH_LOOP, Standing.FOREIGN),
        (FAILED, False, True, Reason.QUOTA, Standing.FOREIGN),
        (COMPLETED, False, True, None, Standing.FOREIGN),
        (COMPLETED, True, True, None, Standing.FOREIGN),
        (CANCELLED, False, True, Reason.CANCELLED, Standing.FOREIGN),
        (CANCELLED, True, True, Reason.RECORD_DELETED, Standing.FOREIGN),
        (None, False, False, None, Standing.FOREIGN),
    ],
)
def test_how_a_job_stands_to_a_lease(
    status: JobStatus | None,
    under: bool,  # noqa: FBT001 a column of the table
    last: bool,  # noqa: FBT001
    reason: Reason | None,
    expected: Standing,
) -> None:
    """A lease has a say while it names the job, or was the last that did and nobody leased it since."""
    assert standing(status, under=under, last=last, reason=reason) is expected


@pytest.mark.parametrize(
    ("outcome", "told", "expected"),
    [
        (DONE, facts(), Complete()),
        (DONE, facts(stands=Standing.RESCUED), Complete()),
        (DONE, facts(stands=Standing.CRASHED), Complete()),
        (DONE, facts(armed=True), Reopen()),
        (DONE, facts(armed=True, record=GONE), Reopen()),
        (DONE, facts(record=CHANGED), Reopen()),
        (DONE, facts(record=CHANGED, current=True), Reopen()),
        (DONE, facts(record=GONE), Cancel()),
        (DONE, facts(stands=Standing.RESCUED, record=GONE), Cancel()),
        (NEEDLESS, facts(current=True), Complete()),
        (NEEDLESS, facts(), Reopen()),
        (NEEDLESS, facts(current=True, armed=True), Reopen()),
        (NEEDLESS, facts(record=GONE), Cancel()),
        (RETRY, facts(), Wait(MINUTE, Note.FAILURE)),
        (RETRY, facts(armed=True), Reopen()),
        (RETRY, facts(record=CHANGED), Reopen()),
        (RETRY, facts(record=GONE), Reopen()),
        (DEAD, facts(), GiveUp(Reason.PERMANENT_ERROR, Note.FAILURE)),
        (DEAD, facts(armed=True), Reopen()),
        (DEAD, facts(record=CHANGED), Reopen()),
        (RELEASED, facts(), Reopen()),
        (RELEASED, facts(armed=True), Reopen()),
        (LATER, facts(), Wait(MINUTE)),
        (LATER, facts(record=CHANGED), Reopen()),
        (REFUSED, facts(), Wait(MINUTE, Note.REFUSAL)),
        (REFUSED, facts(refused_for=THROTTLE_WINDOW - MINUTE), Wait(MINUTE, Note.REFUSAL)),
        (REFUSED, facts(refused_for=THROTTLE_WINDOW), GiveUp(Reason.QUOTA, Note.REFUSAL)),
        (REFUSED, facts(refused_for=THROTTLE_WINDOW, armed=True), Reopen()),
        (LATER, facts(refused_for=THROTTLE_WINDOW), Wait(MINUTE)),
        (SKIPPED, facts(record=GONE), Cancel()),
        (SKIPPED, facts(record=CHANGED), Cancel()),
        (SKIPPED, facts(armed=True), Reopen()),
    ],
)
def test_what_an_outcome_makes_of_a_job(outcome: Outcome, told: AttemptFacts, expected: Transition) -> None:
    """Rule 5, row by row."""
    assert settle(outcome, told) == expected


@pytest.mark.parametrize(
    ("outcome", "stands"),
    [
        *product(OUTCOMES, [Standing.FOREIGN]),
        *product((RETRY, DEAD, RELEASED, LATER, REFUSED, SKIPPED), [Standing.RESCUED, Standing.CRASHED]),
    ],
)
def test_what_a_lease_may_not_say_changes_nothing(outcome: Outcome, stands: Standing) -> None:
    """Nobody speaks for another's lease, and after a rescue only Done is taken."""
    assert settle(outcome, facts(stands=stands)) == Ignore()


@pytest.mark.parametrize(
    ("outcome", "told", "expected"),
    [
        (DONE, facts(), VectorFate.STORED),
        (DONE, facts(armed=True), VectorFate.STORED),  # a forced job is armed, and its text is the same
        (DONE, facts(stands=Standing.RESCUED), VectorFate.STORED),
        (DONE, facts(stands=Standing.CRASHED), VectorFate.STORED),
        (DONE, facts(record=CHANGED), VectorFate.KEPT),
        (DONE, facts(record=GONE), VectorFate.KEPT),
        (DONE, facts(record=GONE, erased=True), VectorFate.DROPPED),
        (DONE, facts(stands=Standing.FOREIGN), VectorFate.KEPT),
        (DONE, facts(stands=Standing.FOREIGN, erased=True), VectorFate.DROPPED),
        (NEEDLESS, facts(), VectorFate.NONE),
        (RETRY, facts(), VectorFate.NONE),
    ],
)
def test_where_a_paid_vector_goes(outcome: Outcome, told: AttemptFacts, expected: VectorFate) -> None:
    """To its record if it fits, else to the cache, unless its text was erased."""
    assert vector_fate(outcome, told) is expected


@pytest.mark.parametrize(
    ("status", "same", "has_vector", "expected"),
    [
        (None, False, False, True),
        (None, False, True, False),
        (None, True, False, False),
        (COMPLETED, False, False, True),
        (COMPLETED, False, True, False),
        (COMPLETED, True, False, False),
        (FAILED, False, True, False),
        (FAILED, True, False, False),
        (CANCELLED, False, False, True),
        (PENDING, False, True, True),
        (PROCESSING, False, True, True),
        (PENDING, True, False, False),
        (PROCESSING, True, True, False),
    ],
)
def test_what_a_put_arms(
    status: JobStatus | None,
    same: bool,  # noqa: FBT001
    has_vector: bool,  # noqa: FBT001
    expected: bool,  # noqa: FBT001
) -> None:
    """Rule 3: unless the text is what it was, or its vector is there and no job is on the way."""
    assert put_arms(status, same=same, has_vector=has_vector) is expected


@pytest.mark.parametrize(
    ("status", "forced", "current", "expected"),
    [
        (None, False, False, True),
        (None, False, True, False),
        (COMPLETED, False, True, False),
        (COMPLETED, True, True, True),
        (FAILED, False, False, True),
        (CANCELLED, False, False, True),
        (PENDING, False, False, False),
        (PROCESSING, False, False, False),
        (PROCESSING, True, False, True),
    ],
)
def test_what_asking_by_hand_arms(
    status: JobStatus | None,
    forced: bool,  # noqa: FBT001
    current: bool,  # noqa: FBT001
    expected: bool,  # noqa: FBT001
) -> None:
    """Forced, or with neither vector nor job on the way."""
    assert enqueue_arms(status, forced=forced, current=current) is expected


@pytest.mark.parametrize(
    ("status", "reason", "same_text", "given_up", "expected"),
    [
        (None, None, False, False, True),
        (None, None, False, True, False),
        (COMPLETED, None, True, False, True),
        (COMPLETED, None, False, True, True),
        (CANCELLED, Reason.RECORD_DELETED, True, False, True),
        (CANCELLED, Reason.CANCELLED, True, True, False),
        (CANCELLED, Reason.CANCELLED, False, False, True),
        (FAILED, Reason.QUOTA, True, True, False),
        (FAILED, Reason.CRASH_LOOP, False, False, True),
        (PENDING, None, False, False, False),
        (PROCESSING, None, False, False, False),
    ],
)
def test_what_the_reconciler_arms(
    status: JobStatus | None,
    reason: Reason | None,
    same_text: bool,  # noqa: FBT001
    given_up: bool,  # noqa: FBT001
    expected: bool,  # noqa: FBT001
) -> None:
    """Rule 10: no job and not given up on, or a job that ended and says nothing of the current text."""
    assert needs_job(status, reason=reason, same_text=same_text, given_up=given_up) is expected


@pytest.mark.parametrize(
    ("left", "unrenewed", "dead", "bound", "expected"),
    [
        (MINUTE, ZERO, False, None, False),
        (ZERO, MINUTE, False, None, True),
        (-MINUTE, MINUTE, False, None, True),
        (MINUTE, -SET_BACK, False, None, False),
        (MINUTE, -SET_BACK - timedelta(milliseconds=1), False, None, True),
        (MINUTE, ZERO, True, None, True),
        (MINUTE, MINUTE, False, 2 * MINUTE, False),
        (MINUTE, 2 * MINUTE, False, 2 * MINUTE, True),
    ],
)
def test_which_leases_are_lost(
    left: timedelta,
    unrenewed: timedelta,
    dead: bool,  # noqa: FBT001
    bound: timedelta | None,
    expected: bool,  # noqa: FBT001
) -> None:
    """Rule 8: it ran out, or its worker is dead or silent, or the clock was set back."""
    assert is_lost(left=left, unrenewed=unrenewed, dead=dead, bound=bound) is expected


@pytest.mark.parametrize(
    ("crashes", "armed", "idle", "expected"),
    [
        (0, False, False, (1, Reopen())),
        (0, True, False, (0, Reopen())),
        (0, False, True, (0, Reopen())),
        (CRASH_LIMIT - 2, False, False, (CRASH_LIMIT - 1, Reopen())),
        (CRASH_LIMIT - 1, False, False, (CRASH_LIMIT, GiveUp(Reason.CRASH_LOOP, Note.FAULT))),
        (CRASH_LIMIT - 1, True, False, (CRASH_LIMIT - 1, Reopen())),
        (CRASH_LIMIT - 1, False, True, (CRASH_LIMIT - 1, Reopen())),
    ],
)
def test_what_a_rescue_does(
    crashes: int,
    armed: bool,  # noqa: FBT001
    idle: bool,  # noqa: FBT001
    expected: tuple[int, Transition],
) -> None:
    """Rule 8: a crash counts unless it says nothing of the text; the fifth makes a dead letter."""
    assert rescue(crashes, armed=armed, idle=idle) == expected


def test_a_crash_loop_says_how_often() -> None:
    """People see how many workers a job took down."""
    fault = crash_fault(5)

    assert (fault.category, fault.code) == (ErrorCategory.PERMANENT, "crash_loop")
    assert "5 times" in fault.message


@pytest.mark.parametrize(
    ("status", "expected"),
    [(PENDING, True), (PROCESSING, True), (COMPLETED, False), (FAILED, False), (CANCELLED, False)],
)
def test_what_can_be_cancelled(status: JobStatus, expected: bool) -> None:  # noqa: FBT001
    """Rule 9: what is on its way."""
    assert can_cancel(status) is expected


@pytest.mark.parametrize(
    ("status", "live", "named", "expected"),
    [
        (FAILED, True, False, True),
        (FAILED, True, True, True),
        (FAILED, False, True, False),
        (CANCELLED, True, False, False),
        (CANCELLED, True, True, True),
        (CANCELLED, False, True, False),
        (COMPLETED, True, True, False),
        (PENDING, True, True, False),
        (PROCESSING, True, True, False),
    ],
)
def test_what_can_be_revived(
    status: JobStatus,
    live: bool,  # noqa: FBT001
    named: bool,  # noqa: FBT001
    expected: bool,  # noqa: FBT001
) -> None:
    """Dead letters; cancelled jobs by name only; nothing of a deleted record."""
    assert can_revive(status, live=live, named=named) is expected


@pytest.mark.parametrize(
    ("left", "waited", "expected"),
    [
        (ZERO, MINUTE, True),
        (MINUTE, MINUTE, False),
        (MINUTE, -SET_BACK, False),
        (MINUTE, -SET_BACK - timedelta(milliseconds=1), True),
    ],
)
def test_when_a_waiting_job_is_due(left: timedelta, waited: timedelta, expected: bool) -> None:  # noqa: FBT001
    """Rule 4: its moment has come, or the clock was set back."""
    assert is_due(left=left, waited=waited) is expected


@pytest.mark.parametrize(
    ("ask", "status", "expected"),
    [
        ({}, None, True),
        ({}, COMPLETED, True),
        ({}, PROCESSING, True),
        ({"current": True}, COMPLETED, False),
        ({"current": True}, PENDING, True),
        ({"same": True}, PENDING, False),
        ({"same": True}, FAILED, False),
        ({"same": True}, None, True),
        ({"same": True, "given_up": True}, None, False),
        ({"same": True, "current": True}, None, False),
        ({"cause": Cause.BY_HAND}, FAILED, True),
        ({"cause": Cause.BY_HAND}, PENDING, False),
        ({"cause": Cause.BY_HAND, "current": True}, None, False),
        ({"cause": Cause.BY_HAND, "current": True, "forced": True}, PROCESSING, True),
        ({"cause": Cause.RECONCILE}, None, True),
        ({"cause": Cause.RECONCILE}, FAILED, False),
        ({"cause": Cause.RECONCILE, "current": True}, COMPLETED, False),
    ],
)
def test_what_a_corpus_elsewhere_arms(ask: dict[str, Any], status: JobStatus | None, expected: bool) -> None:  # noqa: FBT001
    """Rules 3, 10 and 11: as on one database, and a put of the same text arms what may have got lost on its way."""
    said = Arm(**{"id": RecordId("a"), "hash": ContentHash(b"A"), "cause": Cause.PUT, **ask})

    assert arms(said, status, reason=None, same_text=True) is expected
