"""SIGKILL between every two steps of a pair: nothing is lost, nothing wrong is stored, nothing is doubled."""

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from tests.acceptance.pair.dying import BAD, BATCH, WORKER, open_pair, work

from embedq.model import JobFilter, JobStatus, Reason
from embedq.stores.pair import PairStore
from embedq.telemetry import Telemetry
from embedq.testing.stores.stage import NOTES, vector_of
from embedq.upkeep.reconcile import Reconcile

ROOT = Path(__file__).parents[3]
STEPS = (
    "corpus.declare.1",
    "queue.declare.1",
    "corpus.put.1",
    "queue.enqueue.1",
    "queue.lease.1",
    "corpus.texts.1",
    "paid",
    "corpus.store.1",
    "queue.settle.1",
    "corpus.give_up.1",
    "corpus.put.2",
    "queue.enqueue.2",
    "corpus.delete.1",
    "queue.withdraw.1",
    "queue.enqueue.3",
    "corpus.try_again.1",
    "queue.cancel.1",
    "corpus.give_up.2",
    "corpus.texts.2",
    "corpus.store.2",
    "queue.settle.2",
)


@dataclass(frozen=True)
class Pair:
    """Where the two databases are, and a folder for what was said."""

    url: str
    queue_url: str
    folder: Path


@pytest.fixture
def postgres_template(installed: str) -> str:
    """Copy a database that has the schema."""
    return installed


@pytest.fixture(params=["sqlite", "postgres-queue", "postgres-corpus"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Pair:
    """Make a pair of every kind."""
    corpus, queue = f"sqlite:///{tmp_path}/corpus.db", f"sqlite:///{tmp_path}/queue.db"
    if request.param == "sqlite":
        return Pair(corpus, queue, tmp_path)
    url = request.getfixturevalue("postgres_url")
    return Pair(corpus, url, tmp_path) if request.param == "postgres-queue" else Pair(url, queue, tmp_path)


@pytest.mark.parametrize("step", STEPS)
async def test_a_process_may_die_between_any_two_steps(pair: Pair, step: str) -> None:
    """Whatever was acknowledged ends with a vector of its text or a dead letter, and a batch at most is paid twice."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.acceptance.pair.dying", pair.url, pair.queue_url, str(pair.folder), step,
        cwd=ROOT, stderr=subprocess.PIPE,
    )  # fmt: skip
    _, said = await process.communicate()
    assert process.returncode == -signal.SIGKILL, said.decode()

    store = await open_pair(pair.url, pair.queue_url)
    try:
        await _recover(store, pair.folder)
        await _check_records(store, pair.folder)
        await _check_queue(store)
    finally:
        await store.close()
    twice = {text: times for text, times in Counter(_lines(pair.folder, "paid")).items() if times > 1}
    assert sum(twice.values()) - len(twice) <= BATCH, "more was paid twice than was in the air"


async def _recover(store: PairStore, folder: Path) -> None:
    """Do what upkeep and workers do after a crash."""
    await store.rescue(dead=[WORKER], unrenewed_for=timedelta(0))
    await Reconcile(store, Telemetry(), one_database=False).walk()
    await work(store, folder)
    assert sum((await Reconcile(store, Telemetry(), one_database=False).walk()).values()) == 0


async def _check_records(store: PairStore, folder: Path) -> None:
    said: dict[str, str] = {}
    for line in _lines(folder, "acknowledged"):
        id_, _, text = line.partition(" ")
        said[id_] = text
    names = [collection.declaration.name for collection in await store.collections()]
    records = {record.id: record for record in (await store.records(NOTES)).items} if names else {}
    full = {record.id: record for record in await store.get(NOTES, list(records), with_vectors=True)} if names else {}
    for id_, text in said.items():
        found = full[id_].text if id_ in full else "-"
        assert text in (found, "?"), f"what was acknowledged of {id_} is not so"
    for record in full.values():
        if record.vector is None:
            assert record.reason in (Reason.PERMANENT_ERROR, Reason.CANCELLED), (
                f"{record.id} has no vector, and no reason"
            )
            assert record.text == BAD or record.reason is Reason.CANCELLED
        else:
            assert np.array_equal(record.vector, vector_of(record.text)), f"the vector of {record.id} is another text's"


async def _check_queue(store: PairStore) -> None:
    jobs = (await store.jobs(JobFilter(), limit=100)).items
    assert len({job.record_id for job in jobs}) == len(jobs), "a record has two jobs"
    open_ = [job for job in jobs if job.status in (JobStatus.PENDING, JobStatus.PROCESSING, JobStatus.RETRYING)]
    assert open_ == []
    assert await store.misplaced() == []


def _lines(folder: Path, name: str) -> list[str]:
    path = folder / name
    return path.read_text().splitlines() if path.exists() else []
