"""Rules that stand in a statement for speed say what `policy.jobs` says, over all combinations of facts."""

import json
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest

from embedq.model import JobStatus
from embedq.policy import jobs
from embedq.stores.columns import read_status
from embedq.stores.sqlite import leasing, rescuing, settling
from embedq.stores.sqlite.connection import connect
from embedq.stores.sqlite.keys import KEY, LANE, SOLO_LANES
from embedq.stores.sqlite.moments import SET_BACK
from embedq.stores.sqlite.schema import migrate

NOW = 1_000_000_000
SPANS = (-60_000, -SET_BACK - 1, -SET_BACK, -1, 0, 1, 60_000)  # milliseconds
JOB = """
INSERT INTO embedq_job (id, record, collection, space, status, priority, queued_at, arm, crashes, hash, created_at)
VALUES (:id, :id, 1, 1, :status, 1, 5, :arm, :crashes, x'00', 0)
"""
LEASE = """
INSERT INTO embedq_lease (token, worker, space, since, renewed, until, jobs) VALUES (?, ?, 1, 0, ?, ?, '[]')
"""


def ms(span: int) -> timedelta:
    return timedelta(milliseconds=span)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    db = connect(tmp_path / "embedq.db", create=True)
    migrate(db, tmp_path / "embedq.db")
    yield db
    db.close()


@pytest.mark.parametrize("bound", [None, 0, 60_000])
def test_leases_are_lost_as_the_rules_say(db: sqlite3.Connection, bound: int | None) -> None:
    """Rule 8: ran out, renewed in the future, not renewed for a bound, or of a dead worker."""
    db.execute("INSERT INTO embedq_worker VALUES (1, 'dead', '', '', 0, '', '', '', 0, 0, 0, '{}')")
    cases = list(product(SPANS, SPANS, (1, 2)))
    for token, (left, unrenewed, worker) in enumerate(cases, start=1):
        db.execute(LEASE, (token, worker, NOW - unrenewed, NOW + left))

    idle_since = -1 if bound is None else NOW - bound
    rows = db.execute(rescuing.EXPIRED, (NOW, NOW + SET_BACK, idle_since, json.dumps(["dead"]))).fetchall()

    span = None if bound is None else ms(bound)
    told = [jobs.is_lost(left=ms(a), unrenewed=ms(b), dead=worker == 1, bound=span) for a, b, worker in cases]
    assert {row[0] for row in rows} == {token for token, lost in enumerate(told, start=1) if lost}


def test_waiting_jobs_are_due_as_the_rules_say(db: sqlite3.Connection) -> None:
    """Rule 4: their moment has come, or their wait begins in the future."""
    cases = list(product(SPANS, SPANS))
    for job, (left, waited) in enumerate(cases, start=1):
        db.execute("INSERT INTO embedq_later (due, job, since) VALUES (?, ?, ?)", (NOW + left, job, NOW - waited))

    rows = db.execute(leasing.DUE, (NOW, NOW + SET_BACK, 1000)).fetchall()

    told = [jobs.is_due(left=ms(left), waited=ms(waited)) for left, waited in cases]
    assert {job for (job,) in rows} == {job for job, due in enumerate(told, start=1) if due}


def test_a_batch_is_completed_only_where_the_rules_complete_each(db: sqlite3.Connection) -> None:
    """Rule 5: of a whole batch, a job is completed that is under its lease and was not armed since."""
    cases = list(product((0, 2, 3, 4), (6, 7, 8)))  # status; armed by the token
    for job, (status, arm) in enumerate(cases, start=1):
        db.execute(JOB, {"id": job, "status": status, "arm": arm, "crashes": 0})
    before = dict(db.execute("SELECT id, status FROM embedq_job"))

    db.execute(settling.COMPLETE, (NOW, NOW, 1, 7, 70, json.dumps(list(before))))

    after = dict(db.execute("SELECT id, status FROM embedq_job"))
    for job, (status, arm) in enumerate(cases, start=1):
        stands = jobs.standing(read_status(status, queued=False), under=True, last=True)
        completes = stands is jobs.Standing.PROCESSING and arm < 7
        assert (after[job] != before[job]) is completes


@pytest.mark.parametrize("crashes", range(jobs.CRASH_LIMIT))
def test_jobs_that_crashed_workers_stand_behind_all_others(db: sqlite3.Connection, crashes: int) -> None:
    """Rule 8: from two crashes on, a job is leased alone."""
    db.execute(JOB, {"id": 1, "status": 0, "arm": 0, "crashes": crashes})

    (key,) = db.execute(f"SELECT {KEY} FROM embedq_job j").fetchone()  # noqa: S608 our own words

    assert (key >= SOLO_LANES) is (crashes >= jobs.SOLO_CRASHES)
    assert key % LANE == 5


def test_the_columns_name_the_statuses() -> None:
    """An open job is pending or processing, by where it is."""
    assert [read_status(noted) for noted in (None, 0, 2, 3, 4)] == [
        None,
        JobStatus.PENDING,
        JobStatus.COMPLETED,
        JobStatus.FAILED,
        JobStatus.CANCELLED,
    ]
    assert read_status(0, queued=False) is JobStatus.PROCESSING
