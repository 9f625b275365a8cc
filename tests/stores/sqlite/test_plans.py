"""The plans of the hot statements: each finds its rows by an index, however many others there are."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from embedq.model import JobStatus
from embedq.stores.sqlite import (
    arming,
    keeping,
    leasing,
    listing,
    putting,
    reading,
    rescuing,
    searching,
    settle_one,
    settling,
)
from embedq.stores.sqlite.connection import connect
from embedq.stores.sqlite.schema import migrate

# Statements that run for every put, lease, settle or status, with the tables they must never walk through.
BIG = ("embedq_job", "embedq_record", "embedq_vector", "embedq_ready", "embedq_later", "embedq_missing", "embedq_spare")
HOT = {
    "look up what is put": putting.LOOK_UP,
    "jobs of records": arming.FIND_JOBS,
    "out of the line": arming.UNQUEUE_READY,
    "out of the waiting room": arming.UNQUEUE_LATER,
    "into the line": arming.QUEUE,
    "arm": arming.ARM,
    "note missing": arming.NOTE_MISSING,
    "note found": arming.NOTE_FOUND,
    "due": leasing.DUE,
    "promote": leasing.PROMOTE,
    "promoted": leasing.PROMOTED,
    "take": leasing.TAKE,
    "remove": leasing.REMOVE,
    "lowest lane": leasing.LOWEST_LANE,
    "solo lane": leasing.SOLO,
    "open spaces": leasing.OPEN_SPACES,
    "next due": leasing.NEXT_DUE,
    "complete": settling.COMPLETE,
    "store": settling.STORE,
    "found": settling.FOUND,
    "job of an outcome": settle_one.JOB,
    "record of a job that is no more": settle_one.ERASED,
    "crash": rescuing.NOTE_CRASHES,
    "known vectors": reading.KNOWN,
    "get": reading.GET,
    "list": reading.LIST,
    "list pending": reading.LIST_PENDING,
    "list failed": reading.LIST_FAILED,
    "oldest": reading.OLDEST,
    "the line": listing.READY,
    "missing": keeping.MISSING,
    "processing": listing.PROCESSING,
    "truncated": listing.TRUNCATED,
    "tallies": listing.TALLIES,
}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sqlite3.Connection]:
    path: Path = tmp_path_factory.mktemp("plans") / "embedq.db"
    db = connect(path, create=True)
    migrate(db, path)
    yield db
    db.close()


@pytest.mark.parametrize("name", HOT)
def test_a_hot_statement_never_walks_a_big_table(db: sqlite3.Connection, name: str) -> None:
    """Finished, waiting and foreign rows cost it nothing."""
    statement = HOT[name]
    numbered = max((int(place) for place in _numbers(statement)), default=0)
    values = [None] * (numbered or statement.count("?"))

    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", values)]

    walks = [step for step in plan if step.startswith("SCAN") and _is_big(step)]
    assert walks == [], "\n".join(plan)


@pytest.mark.parametrize(
    "status", [None, JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.CANCELLED, JobStatus.RETRYING]
)
def test_a_list_of_jobs_is_not_sorted(db: sqlite3.Connection, status: JobStatus | None) -> None:
    """A page costs as much as it holds: an index has its order."""
    condition, index = listing.STATUS[status] if status else ("1", "")
    statement = listing.JOBS.format(conditions=condition, index=index, order=listing.NEWEST)

    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", [10])]

    assert not any("TEMP B-TREE" in step for step in plan), "\n".join(plan)


def test_jobs_that_are_named_are_looked_up(db: sqlite3.Connection) -> None:
    """Leased jobs are few: the order of their list does not make it walk through all others."""
    conditions = "j.status = 0 AND j.id IN (SELECT value FROM json_each(?))"
    statement = listing.JOBS.format(conditions=conditions, index="", order=listing.NEWEST_OF_NAMED)

    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", ["[]", 10])]

    assert any(step.startswith("SEARCH j USING INTEGER PRIMARY KEY") for step in plan), "\n".join(plan)


def test_a_tenants_records_are_found_by_an_index(db: sqlite3.Connection) -> None:
    """What a search is narrowed to does not depend on how many records others have."""
    statement = searching.ALLOWED.format(filters="AND x.tenant = ?")

    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", [1, "t"])]

    assert any("USING INDEX embedq_record_tenant (collection=? AND tenant=?)" in step for step in plan), "\n".join(plan)


def _numbers(statement: str) -> list[str]:
    return [part[: len(part) - len(part.lstrip("0123456789"))] or "0" for part in statement.split("?")[1:]]


def _is_big(step: str) -> bool:
    """Tell a walk through a table or its alias from one through a list or a partial index."""
    aliases = {
        "j": "embedq_job",
        "x": "embedq_record",
        "v": "embedq_vector",
        "r": "embedq_ready",
        "m": "embedq_missing",
    }
    name = step.split()[1]
    return aliases.get(name, name) in BIG and "USING" not in step
