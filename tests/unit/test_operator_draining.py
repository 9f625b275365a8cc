"""A drain waits for what can be done, and does not wait where nobody can do it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from embedq.app import App, load, start
from embedq.embedders.faults import VARIABLE
from embedq.model import Ask, HealthReport, Process, Worker, WorkerId, WorkerInfo
from embedq.operator import DrainReport, draining
from embedq.operator.watching import obstacle


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    settings = load(url=f"sqlite:///{tmp_path}/notes.db", embedder="fake", poll_seconds=0.1, heartbeat_seconds=0.2)
    async with start(settings, quiet=True) as opened:
        await opened.client.put("notes", [{"id": str(n), "text": f"note {n}"} for n in range(5)])
        yield opened


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "GRACE", 0.3)


@pytest.mark.usefixtures("impatient")
async def test_a_drain_does_not_wait_for_nobody(app: App) -> None:
    """Where no worker runs it ends long before its time, and says how to start one."""
    report = await app.operator.drain(timeout=120)

    assert (report.status, report.remaining, report.pending, report.processing) == ("no_worker", 5, 5, 0)
    assert "start one with `embedq work`" in (report.reason or "")
    assert report.elapsed < 60


@pytest.mark.usefixtures("impatient")
async def test_a_paused_drain_does_not_wait_for_the_leases_of_the_dead(app: App) -> None:
    """A leased job whose worker is gone is finished by nobody while the queue is paused."""
    spaces = [space.id for space in await app.store.spaces()]
    await app.store.lease(Ask(worker=WorkerId("w"), spaces=spaces, limit=2, span=timedelta(minutes=5)))
    await app.operator.pause()

    report = await app.operator.drain(timeout=120)

    assert (report.status, report.waited_for, report.remaining) == ("no_worker", "leased", 2)


async def test_a_drain_waits_for_a_worker_that_is_starting(app: App) -> None:
    """A moment without workers is no reason to give up."""
    seen: list[DrainReport] = []
    looked = asyncio.Event()

    def look(report: DrainReport) -> None:
        seen.append(report)
        looked.set()

    waiting = asyncio.create_task(app.operator.drain(timeout=120, progress=look))
    await looked.wait()

    async with app.working(1):
        report = await waiting

    assert (report.status, report.reason) == ("drained", None)
    assert (seen[0].remaining, seen[0].status) == (5, "timeout")


@pytest.mark.usefixtures("impatient")
async def test_a_drain_does_not_wait_for_a_halted_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bad key needs a person: the drain ends with what the embedder said and what to do."""
    monkeypatch.setenv(VARIABLE, "401=1")
    settings = load(url=f"sqlite:///{tmp_path}/h.db", embedder="fake", poll_seconds=0.1, heartbeat_seconds=0.2)
    async with start(settings, quiet=True) as app, app.working(1):
        await app.client.put("notes", [{"id": "a", "text": "loom"}])

        report = await app.operator.drain(timeout=120)

        assert (report.status, report.remaining) == ("halted", 1)
        assert "embedder fake is halted" in (report.reason or "")
        assert "`embedq resume`" in (report.reason or "")


def worker(*halted: str, alive: bool = True) -> Worker:
    now, process = datetime.now(UTC), Process(host="h", boot="", pid=1, born="")
    info = WorkerInfo(id=WorkerId("w"), process=process, version="0", embedder="fake")
    report = HealthReport(halted=halted)
    return Worker(info=info, started_at=now, seen_at=now, missed_heartbeats=0, alive=alive, report=report)


@pytest.mark.parametrize(
    ("workers", "needed", "status"),
    [
        ([], {"a"}, "no_worker"),
        ([worker(alive=False)], {"a"}, "no_worker"),
        ([], set(), "no_worker"),
        ([worker("a")], {"a"}, "halted"),
        ([worker("a", "b")], {"a", "b"}, "halted"),
        ([worker("a"), worker("a", "c")], {"a"}, "halted"),
        ([worker("a"), worker(alive=False)], {"a"}, "halted"),
        ([worker("a"), worker()], {"a"}, None),
        ([worker("a")], {"a", "b"}, None),
        ([worker("a")], set(), None),
        ([worker()], {"a"}, None),
    ],
)
def test_nobody_can_work(workers: list[Worker], needed: set[str], status: str | None) -> None:
    """Only if no worker is alive, or each of them is halted for every embedder that jobs need."""
    found = obstacle(workers, needed)

    assert (found and found.status) == status
