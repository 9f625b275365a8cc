"""Transitions of jobs: read the facts, ask the rules (`policy.jobs`), write the result where the facts still hold.

No lock is held while the rules are asked. A row's version is the transaction that last wrote it: rows that changed
between reading and writing are read again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from embedq.model import Done, Fault, JobId, Outcome, Reason
from embedq.policy import jobs as rules
from embedq.policy.attempts import turn_of
from embedq.policy.jobs import (
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
)
from embedq.stores.columns import CANCELLED, COMPLETED, FAILED, OPEN, read_status, write_fault
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.keys import SPACE_BITS, key_of
from embedq.stores.postgres.vectors import encode
from embedq.telemetry import Event

NO_TIME = timedelta(0)
ROUNDS = 5  # how often the facts are read again; a job that changed each time is busy

# Per outcome: its job, whether its lease still holds that, and its record. Whether a job is queued is looked up if its
# lease does not hold it; whether its vector is current, if it brings none ($4). Every look-up has a LIMIT: with EXISTS
# or a plain join the planner may read the whole table.
FACTS = f"""
SELECT j.id IS NOT NULL AS is_there, j.xmin::text::bigint AS version, j.status, j.reason,
  h.arms AS leased_arms, coalesce(j.status = {OPEN} AND h.arms >= j.fence, false) AS under,
  coalesce(j.token = u.token AND j.nonce = u.nonce, false) AS last, j.arms, j.leased_arms AS last_arms,
  CASE WHEN j.status = {OPEN} AND coalesce(h.arms < j.fence, true) THEN coalesce(
    (SELECT true FROM embedq.later l WHERE l.job = j.id LIMIT 1),
    (SELECT true FROM embedq.ready r WHERE r.space = (j.id & {(1 << SPACE_BITS) - 1})::int
      AND r.key = embedq.place(j.priority, j.crashes, j.queued_at) AND r.job = j.id LIMIT 1), false)
    ELSE false END AS queued,
  x.rid IS NOT NULL AND x.valid_to IS NULL AS live, x.hash,
  CASE WHEN u.needless THEN EXISTS (
    SELECT FROM embedq.stored((u.job & {(1 << SPACE_BITS) - 1})::int, ARRAY[x.rid]) v WHERE v.hash = x.hash)
    ELSE false END AS current,
  CASE WHEN j.refused_at IS NOT NULL THEN
    coalesce($5::timestamptz, clock_timestamp()) - greatest(j.refused_at, s.success_at) END AS refused_for,
  coalesce($5::timestamptz, clock_timestamp()) - j.queued_at AS waited
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[]) WITH ORDINALITY u (token, nonce, job, needless, n)
LEFT JOIN embedq.job j ON j.id = u.job LEFT JOIN LATERAL (
  SELECT r.rid, r.valid_to, r.hash FROM embedq.record r WHERE r.rid = u.job >> {SPACE_BITS} LIMIT 1) x ON true
LEFT JOIN embedq.space s ON s.id = (u.job & {(1 << SPACE_BITS) - 1})::int
LEFT JOIN LATERAL (SELECT l.arms[array_position(l.jobs, u.job)] AS arms FROM embedq.lease l
  WHERE l.token = u.token AND l.nonce = u.nonce) h ON true
ORDER BY u.n
"""
WRITE = "SELECT written, busy FROM embedq.write_transitions($1, $2, $3, $4, $5)"


Answers = Mapping[int, RecordAnswer]  # by the outcome's own identity
NO_ANSWERS: Answers = {}


@dataclass(frozen=True, slots=True)
class Judged:
    """An outcome, what is known of its job, and what the rules say."""

    outcome: Outcome
    row: Any
    facts: AttemptFacts
    transition: Transition
    fate: VectorFate
    elsewhere: bool  # its record and its vector are in another database

    @property
    def key(self) -> int:
        """The job's key."""
        return key_of(self.outcome.lease.job_id)


async def settle(
    database: Database,
    outcomes: Sequence[Outcome],
    now: datetime | None,
    *,
    last: bool,
    answers: Answers = NO_ANSWERS,
) -> tuple[frozenset[JobId], frozenset[JobId]]:
    """Record how attempts ended; return the jobs that were still ours, and those that another transaction holds.

    With `answers` the records and their vectors are in another database, which has said so of them.
    """
    ours, busy = set[JobId](), set[JobId]()
    for batch in _each_once(sorted(outcomes, key=turn_of)):
        left = batch
        for _ in range(ROUNDS):
            written, held, left = await _settle(database, left, now, answers, last=last)
            ours |= written
            busy |= held
            if not left:
                break
        busy |= {outcome.lease.job_id for outcome in left}
    return frozenset(ours), frozenset(busy - ours)


def _each_once(outcomes: Sequence[Outcome]) -> Iterator[Sequence[Outcome]]:
    """Split outcomes so that each job occurs once per part, in the order of the outcomes."""
    left = outcomes
    while left:
        first = {outcome.lease.job_id: outcome for outcome in reversed(left)}
        yield [outcome for outcome in left if first[outcome.lease.job_id] is outcome]
        left = [outcome for outcome in left if first[outcome.lease.job_id] is not outcome]


async def _settle(
    database: Database, batch: Sequence[Outcome], now: datetime | None, answers: Answers, *, last: bool
) -> tuple[set[JobId], set[JobId], Sequence[Outcome]]:
    """Settle jobs once; return those that were ours, those that are held, and the outcomes whose facts have changed."""
    judged = await _ask(database, batch, now, answers)
    changes = [change for change in map(_change, judged) if change is not None]
    paid = [one for one in judged if one.fate in (VectorFate.STORED, VectorFate.KEPT)]
    vectors = [
        None if one.elsewhere else encode(one.outcome.vector)
        for one in paid
        if isinstance(one.outcome, Done) and one.outcome.vector is not None
    ]
    values = (json.dumps(changes, ensure_ascii=False), json.dumps([_paid(one) for one in paid]), vectors)
    answer = await database.fetchrow(WRITE, *values, last, now)
    written, busy = set(answer["written"]), set(answer["busy"])
    judged = [one for one in judged if not isinstance(one.transition, Ignore)]
    _report(database, [one for one in judged if one.key in written])
    ours = {one.outcome.lease.job_id for one in judged if one.key in written}
    held = {one.outcome.lease.job_id for one in judged if one.key in busy}
    return ours, held, [one.outcome for one in judged if one.key not in written | busy]


async def _ask(database: Database, batch: Sequence[Outcome], now: datetime | None, answers: Answers) -> list[Judged]:
    """Read the facts of a batch in one statement, and ask the rules."""
    leases = [outcome.lease for outcome in batch]
    needless = [isinstance(outcome, Done) and outcome.vector is None for outcome in batch]
    columns = [lease.token for lease in leases], [lease.nonce for lease in leases]
    rows = await database.fetch(FACTS, *columns, [key_of(lease.job_id) for lease in leases], needless, now)
    facts = [_facts(outcome, row, answers.get(id(outcome))) for outcome, row in zip(batch, rows, strict=True)]
    return [
        Judged(
            outcome,
            row,
            known,
            rules.settle(outcome, known),
            rules.vector_fate(outcome, known),
            elsewhere=id(outcome) in answers,
        )
        for outcome, row, known in zip(batch, rows, _with_successes(batch, facts), strict=True)
    ]


def _facts(outcome: Outcome, row: Any, answer: RecordAnswer | None) -> AttemptFacts:  # noqa: ANN401 a row
    status = read_status(row["status"], queued=row["queued"])
    reason = None if row["reason"] is None else Reason(row["reason"])
    fits = RecordAnswer.FITS if row["hash"] == outcome.lease.hash else RecordAnswer.CHANGED
    return AttemptFacts(
        standing=rules.standing(status, under=row["under"], last=row["last"], reason=reason),
        armed=row["arms"] != _leased_arms(row),
        record=answer or (fits if row["live"] else RecordAnswer.GONE),
        current=row["current"] or answer is not None,
        refused_for=row["refused_for"],
    )


def _leased_arms(row: Any) -> int | None:  # noqa: ANN401 a row
    """Say how often a job had been armed when this lease read its text."""
    arms: int | None = row["leased_arms"] if row["under"] else row["last_arms"]
    return arms


def _with_successes(batch: Sequence[Outcome], facts: Sequence[AttemptFacts]) -> list[AttemptFacts]:
    """A success that is written together with refusals counts before them, as `turn_of` says."""
    spaces = {
        outcome.lease.space
        for outcome, known in zip(batch, facts, strict=True)
        if isinstance(outcome, Done) and outcome.vector is not None and known.standing is not Standing.FOREIGN
    }
    return [
        replace(known, refused_for=min(known.refused_for, NO_TIME))
        if known.refused_for is not None and outcome.lease.space in spaces
        else known
        for outcome, known in zip(batch, facts, strict=True)
    ]


def _change(one: Judged) -> dict[str, Any] | None:
    """Write a job's transition; None if nothing changes, and its lease does not name it."""
    is_ignored = isinstance(one.transition, Ignore)
    if is_ignored and one.row["leased_arms"] is None:
        return None
    lease = one.outcome.lease
    return {
        "job": one.key,
        "version": one.row["version"],
        "token": lease.token,
        "nonce": lease.nonce,
        "late": one.facts.standing is Standing.RESCUED and not is_ignored,
        "arms": _leased_arms(one.row),
        "crashes": 0,  # any settle ends their count
        **columns_of(one.transition, lease.hash, rules.fault_in(one.outcome)),
    }


def columns_of(transition: Transition, hash_: bytes, fault: Fault | None) -> dict[str, Any]:
    """Return the columns that a transition sets; a status of None changes nothing."""
    match transition:
        case Complete():
            ended: dict[str, Any] = {"status": COMPLETED, "hash": f"\\x{hash_.hex()}"}
        case Reopen():
            ended = {"status": OPEN}
        case Wait():
            ended = {"status": OPEN, "after": transition.after.total_seconds() or None}
        case GiveUp():
            ended = {"status": FAILED, "hash": f"\\x{hash_.hex()}", "reason": transition.reason}
        case Cancel():
            ended = {"status": CANCELLED, "hash": f"\\x{hash_.hex()}", "reason": Reason.RECORD_DELETED}
        case Ignore():
            ended = {"status": None}
        case _:
            assert_never(transition)
    note = transition.note if isinstance(transition, Wait | GiveUp) else Note.NOTHING
    return {"failures": 0, "refused": False, **ended, **_noted(note, fault)}


def _noted(note: Note, fault: Fault | None) -> dict[str, Any]:
    """Return the columns that an attempt sets beside the status."""
    noted = None if fault is None else write_fault(fault)
    match note:
        case Note.NOTHING:
            return {}
        case Note.FAULT:
            return {"fault": noted}
        case Note.FAILURE:
            return {"failures": 1, "fault": noted}
        case Note.REFUSAL:
            return {"refused": True, "fault": noted}
        case _:
            assert_never(note)


def _paid(one: Judged) -> dict[str, Any]:
    """Return the facts about a vector; the vector is a parameter of its own."""
    lease = one.outcome.lease
    return {
        "job": one.key,
        "token": lease.token,
        "record": lease.record_id,
        "erasure": lease.erasure,
        "hash": f"\\x{lease.hash.hex()}",
        "truncated": isinstance(one.outcome, Done) and one.outcome.truncated,
        "kept": None if one.elsewhere else one.fate is VectorFate.KEPT,  # None: neither stored nor kept here
    }


def _report(database: Database, written: Sequence[Judged]) -> None:
    """Report jobs that became ready, vectors that were stored, and jobs that were given up on."""
    if any(isinstance(one.transition, Reopen | Wait) for one in written):
        database.woke()
    for one in written:
        if isinstance(one.transition, GiveUp) and one.transition.note is Note.REFUSAL:
            database.report_dead(one.outcome.lease.job_id, one.transition.reason)
    waits = [one.row["waited"].total_seconds() for one in written if one.fate is VectorFate.STORED]
    if waits:
        database.telemetry.emit(Event.STORED, level="debug", count=len(waits), seconds=sum(waits) / len(waits))
