"""The rules (docs/explanation/rules.md) implemented literally: one row per record and job, and no optimisation.

Walks apply each act to this and to a real store, and compare. A text serves as its own hash here, and a vector is
identified by its text. Numbers and tokens are the real store's: the rules only say that they are never reused.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import assert_never

from embedq.model import (
    Ask,
    Done,
    EmbeddingStatus,
    Failed,
    JobId,
    JobStatus,
    Lease,
    Outcome,
    Priority,
    Reason,
    RecordId,
    Released,
    Retry,
    Skipped,
    SpaceId,
    WorkerId,
)

PENDING, PROCESSING, COMPLETED = JobStatus.PENDING, JobStatus.PROCESSING, JobStatus.COMPLETED
FAILED, CANCELLED = JobStatus.FAILED, JobStatus.CANCELLED
MOST_CRASHES = 5
SOLO_CRASHES = 2
THROTTLE_WINDOW = timedelta(hours=1)
SET_BACK = timedelta(seconds=1)  # what begins further ahead than this was written before the clock was set back

Name = tuple[str, RecordId]  # collection and id


@dataclass(eq=False)
class JobRow:
    """Rule 1, and what operators and workers leave on it."""

    record: "RecordRow"
    priority: Priority
    queued_at: datetime
    due_at: datetime
    waits_since: datetime
    hash: str | None
    id: JobId | None = None  # set by the store when the row is first seen
    token: int = 0
    status: JobStatus = PENDING
    armed: bool = True
    forced: bool = False
    attempts: int = 0
    crashes: int = 0
    reason: Reason | None = None
    worker: WorkerId | None = None
    until: datetime | None = None
    renewed_at: datetime | None = None
    refused_at: datetime | None = None
    ended_at: datetime | None = None
    was_due: bool = True  # it was due once, so a store may have put it into the ready queue

    @property
    def is_open(self) -> bool:
        """Say whether the job is open."""
        return self.status in (PENDING, PROCESSING)


@dataclass(eq=False)
class RecordRow:
    """What the corpus stores of one record."""

    name: Name
    space: SpaceId
    text: str | None  # None: erased
    live: bool = True
    vector: str | None = None  # the text that the stored vector was made from
    given_up: tuple[str | None, Reason] | None = None
    job: JobRow | None = None

    @property
    def current(self) -> bool:
        """Say whether the stored vector is that of the text."""
        return self.live and self.vector is not None and self.vector == self.text

    @property
    def reason(self) -> Reason | None:
        """Say why the text has no vector, if it was given up on."""
        gave_up = self.given_up is not None and self.given_up[0] == self.text and not self.current
        return self.given_up[1] if self.given_up and gave_up else None

    @property
    def embedding_status(self) -> EmbeddingStatus:
        """Return the record's embedding status."""
        if self.current:
            return EmbeddingStatus.EMBEDDED
        return EmbeddingStatus.PENDING if self.reason is None else EmbeddingStatus.FAILED

    @property
    def needs_job(self) -> bool:
        """Rule 10: neither queued, nor given up on, nor cancelled by an operator."""
        job = self.job
        if job is None:
            return self.given_up is None or self.given_up[0] != self.text
        if job.status is COMPLETED or (job.status is CANCELLED and job.reason is Reason.RECORD_DELETED):
            return True
        return job.status in (FAILED, CANCELLED) and job.hash != self.text


@dataclass
class RulesModel:
    """Records, jobs, and global state."""

    one_database: bool = True  # False: corpus and queue are a pair, and rule 11 applies
    records: dict[Name, RecordRow] = field(default_factory=dict)
    jobs: list[JobRow] = field(default_factory=list)
    paused: bool = False
    holds: dict[SpaceId, tuple[datetime, datetime]] = field(default_factory=dict)  # since, until
    success_at: dict[SpaceId, datetime] = field(default_factory=dict)

    def find(self, job: JobId) -> JobRow | None:
        """Find a job that was not purged."""
        return next((row for row in self.jobs if row.id == job), None)

    def live(self, collection: str) -> list[RecordRow]:
        """List the live records of a collection."""
        return [row for row in self.records.values() if row.name[0] == collection and row.live]

    def arm(self, record: RecordRow, now: datetime, *, priority: Priority, forced: bool = False) -> None:
        """Rule 2. An open job keeps its queue position, and the higher priority."""
        job = record.job
        if job is None:
            job = JobRow(record, priority, now, now, now, record.text)
            record.job = job
            self.jobs.append(job)
        elif job.is_open:
            job.priority = max(job.priority, priority)
        else:
            job.priority, job.queued_at = priority, now
        job.hash, job.armed = record.text, True
        job.attempts = job.crashes = 0
        job.forced = job.forced or forced
        job.refused_at = record.given_up = None
        if job.status is not PROCESSING:
            self._wait(job, now)

    def put(self, name: Name, space: SpaceId, text: str, priority: Priority, now: datetime) -> RecordRow:
        """Rule 3."""
        record = self.records.setdefault(name, RecordRow(name, space, None, live=False))
        same = record.live and record.text == text
        record.live, record.text = True, text
        job_is_open = record.job is not None and record.job.is_open
        lost = not self.one_database and not record.current and record.needs_job  # between two databases
        if lost if same else not (record.vector == text and not job_is_open):
            self.arm(record, now, priority=priority)
        elif record.job is not None and job_is_open:
            record.job.priority = max(record.job.priority, priority)
        return record

    def delete(self, record: RecordRow, now: datetime, *, purge: bool) -> bool:
        """Rule 9, second half; `purge` removes the text too. Say whether it existed."""
        there = record.live or (purge and record.text is not None)
        record.live, record.vector = False, None
        if record.job is not None and record.job.is_open:
            self._end(record.job, CANCELLED, Reason.RECORD_DELETED, now)
        if purge:
            record.text = record.given_up = None
        return there

    def cancel(self, job: JobRow, now: datetime) -> None:
        """Rule 9, first half: the text is given up on until it is revived or changed."""
        if job.is_open:
            self._end(job, CANCELLED, Reason.CANCELLED, now)
            job.hash = job.record.text
            job.record.given_up = (job.record.text, Reason.CANCELLED)

    def revive(self, jobs: Sequence[JobRow], now: datetime) -> int:
        """Arm dead letters, or jobs given by id, if their record is live."""
        fit = [job for job in jobs if job.status in (FAILED, CANCELLED) and job.record.live]
        for job in fit:
            self.arm(job.record, now, priority=job.priority)
        return len(fit)

    def is_due(self, job: JobRow, now: datetime) -> bool:
        """Rule 4's "due": its moment has come, or its wait begins in the future (promise 10)."""
        return job.due_at <= now or job.waits_since > now + SET_BACK

    def is_held(self, space: SpaceId, now: datetime) -> bool:
        """Say whether this space's provider is on hold now."""
        since, until = self.holds.get(space, (now, now))
        return until > now and since <= now + SET_BACK

    def hold(self, space: SpaceId, until: datetime, now: datetime) -> None:
        """Set a hold; the longest one wins, unless it begins in the future."""
        since, already = self.holds.get(space, (now, now))
        self.holds[space] = (now, until if since > now + SET_BACK else max(until, already))

    def lease(self, job: JobRow, lease: Lease, ask: Ask, now: datetime) -> None:
        """Rule 4, for a job that the store chose."""
        job.status, job.token, job.armed = PROCESSING, lease.token, False
        job.worker, job.until, job.renewed_at = ask.worker, now + ask.span, now

    def settle(self, outcome: Outcome, now: datetime) -> bool:
        """Rule 5. Say whether the job was still the lease's."""
        lease = outcome.lease
        if isinstance(outcome, Done) and outcome.vector is not None and not self.one_database:
            self._store(lease)
        job = self.find(lease.job_id)
        if job is None or job.token != lease.token or not _takes(job, outcome):
            return False
        job.crashes = 0
        fits = job.record.live and job.record.text == lease.text
        match outcome:
            case Done():
                self._done(job, outcome, now, fits=fits)
            case Skipped():
                self._wait(job, now) if job.armed else self._end(job, CANCELLED, Reason.RECORD_DELETED, now)
            case Retry() | Failed() | Released() if job.armed or not fits:
                self._wait(job, now)
            case Retry():
                self._charge(job)
                self._wait(job, now, outcome.after)
            case Failed():
                self._charge(job)
                self._give_up(job, outcome.reason, now)
            case Released():
                self._release(job, outcome, now)
            case _:
                assert_never(outcome)
        return True

    def renew(self, lease: Lease, span: timedelta, now: datetime) -> bool:
        """Rule 7."""
        job = self.find(lease.job_id)
        if job is None or job.token != lease.token or job.status is not PROCESSING:
            return False
        job.until, job.renewed_at = now + span, now
        return True

    def rescue(self, now: datetime, dead: Sequence[WorkerId], unrenewed_for: timedelta | None) -> list[JobRow]:
        """Rule 8."""
        lost = [job for job in self.jobs if job.status is PROCESSING and _is_lost(job, now, dead, unrenewed_for)]
        for job in lost:
            job.crashes += not job.armed
            if job.crashes >= MOST_CRASHES:
                self._give_up(job, Reason.CRASH_LOOP, now)
            else:
                self._wait(job, now)
        return lost

    def reconcile(self, record: RecordRow, now: datetime) -> bool:
        """Rule 10."""
        needs = record.live and not record.current and record.needs_job
        if needs:
            self.arm(record, now, priority=Priority.NORMAL)
        return needs

    def purge(self, before: datetime) -> None:
        """Delete jobs that ended before a moment; records keep what was given up on."""
        for job in [job for job in self.jobs if job.ended_at is not None and job.ended_at < before]:
            self.jobs.remove(job)
            job.record.job = None

    def _store(self, lease: Lease) -> None:
        """Rule 11: a pair's corpus accepts a vector of the current text from any lease."""
        record = self.records.get((lease.collection, lease.record_id))
        if record is not None and record.live and record.text == lease.text:
            record.vector = lease.text

    def _done(self, job: JobRow, outcome: Done, now: datetime, *, fits: bool) -> None:
        record = job.record
        if outcome.vector is not None:
            self.success_at[record.space] = max(now, self.success_at.get(record.space, now))
            record.vector = outcome.lease.text if fits else record.vector  # rule 6
        if not record.live and not job.armed:
            self._end(job, CANCELLED, Reason.RECORD_DELETED, now)
        elif job.armed or not fits or not record.current:
            self._wait(job, now)
        else:
            self._end(job, COMPLETED, None, now)
            job.hash, job.forced, job.refused_at, record.given_up = outcome.lease.text, False, None, None

    def _release(self, job: JobRow, outcome: Released, now: datetime) -> None:
        """Promise 6: refused for the throttle window without one success is a dead letter."""
        if outcome.refused is not None:
            first = job.refused_at
            job.refused_at = first or now
            if first and now - max(first, self.success_at.get(job.record.space, first)) >= THROTTLE_WINDOW:
                self._give_up(job, Reason.QUOTA, now)
                return
        self._wait(job, now, outcome.after)

    def _charge(self, job: JobRow) -> None:
        job.attempts += 1
        job.refused_at = None

    def _give_up(self, job: JobRow, reason: Reason, now: datetime) -> None:
        self._end(job, FAILED, reason, now)
        job.hash = job.record.text
        job.record.given_up = (job.record.text, reason)

    def _wait(self, job: JobRow, now: datetime, after: timedelta = timedelta(0)) -> None:
        job.status, job.reason, job.ended_at = PENDING, None, None
        job.due_at, job.waits_since, job.was_due = now + after, now, not after
        job.until = job.renewed_at = None

    def _end(self, job: JobRow, status: JobStatus, reason: Reason | None, now: datetime) -> None:
        job.status, job.reason, job.ended_at = status, reason, now
        job.until = job.renewed_at = None


def _takes(job: JobRow, outcome: Outcome) -> bool:
    """Rule 5's second column: the status that an outcome needs."""
    if job.status is PROCESSING:
        return True
    late = job.status is PENDING or (job.status is FAILED and job.reason is Reason.CRASH_LOOP)
    return isinstance(outcome, Done) and late


def _is_lost(job: JobRow, now: datetime, dead: Sequence[WorkerId], unrenewed_for: timedelta | None) -> bool:
    assert job.until is not None
    assert job.renewed_at is not None
    idle = unrenewed_for is not None and job.renewed_at <= now - unrenewed_for
    return job.until <= now or job.renewed_at > now + SET_BACK or job.worker in dead or idle
