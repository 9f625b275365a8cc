"""Jobs that stand in no place or in several: who finds them, who mends them, and who does not wait for them."""

import sqlite3
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from embedq.app import App, load, start
from embedq.model import Ask, Lease, WorkerId
from embedq.operator import Finding, Verdict

IN_NO_PLACE = "DELETE FROM embedq_ready WHERE job = 1"
IN_TWO_PLACES = "INSERT INTO embedq_later VALUES (1, 1, 1)"


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    settings = load(url=f"sqlite:///{tmp_path}/notes.db", embedder="fake", poll_seconds=0.1)
    async with start(settings, quiet=True) as opened:
        await opened.client.put("notes", [{"id": str(n), "text": f"note {n}"} for n in range(5)])
        yield opened


def spoil(tmp_path: Path, statement: str) -> None:
    """Move a job to where it does not belong."""
    with sqlite3.connect(tmp_path / "notes.db") as db:
        db.execute(statement)
    db.close()


async def lease(app: App, limit: int) -> list[Lease]:
    spaces = [space.id for space in await app.store.spaces()]
    ask = Ask(worker=WorkerId("w"), spaces=spaces, limit=limit, span=timedelta(minutes=5))
    return list((await app.store.lease(ask)).leases)


async def places(app: App, *, repair: bool = False) -> Finding:
    [found] = [finding for finding in await app.operator.doctor(repair=repair) if finding.check == "places"]
    return found


@pytest.mark.parametrize("statement", [IN_NO_PLACE, IN_TWO_PLACES], ids=["in no place", "in two places"])
async def test_the_doctor_finds_a_misplaced_job_and_mends_it(app: App, tmp_path: Path, statement: str) -> None:
    """It is a problem until somebody asks for the repair; then the job is leased once, like the others."""
    assert (await places(app)).verdict is Verdict.OK
    spoil(tmp_path, statement)

    found, mended = await places(app), await places(app, repair=True)

    assert (found.verdict, "doctor --repair" in found.message) == (Verdict.PROBLEM, True)
    assert (mended.verdict, mended.message.startswith("1 job ")) == (Verdict.WARNING, True)
    assert (await places(app)).verdict is Verdict.OK
    assert sorted(one.job_id for one in await lease(app, 10)) == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("statement", [IN_NO_PLACE, IN_TWO_PLACES], ids=["in no place", "in two places"])
async def test_a_repair_puts_misplaced_jobs_in_place(app: App, tmp_path: Path, statement: str) -> None:
    """It mends everything that it can, so these too, and says how many there were."""
    spoil(tmp_path, statement)

    first, second = await app.operator.repair(), await app.operator.repair()

    assert [report.placed for report in (first, second)] == [1, 0]
    assert sorted(one.job_id for one in await lease(app, 10)) == ["1", "2", "3", "4", "5"]


async def test_a_drain_does_not_wait_for_a_job_in_no_place(app: App, tmp_path: Path) -> None:
    """When all others are done it says that it is stuck, long before its time is over; after a repair it drains."""
    spoil(tmp_path, IN_NO_PLACE)
    async with app.working(1):
        stuck = await app.operator.drain(timeout=120)
        assert (stuck.status, stuck.remaining, stuck.pending) == ("stuck", 1, 1)

        await app.operator.repair()

        assert (await app.operator.drain(timeout=120)).status == "drained"


async def test_a_drain_waits_for_jobs_that_only_lack_a_worker(app: App, tmp_path: Path) -> None:
    """While one job can still move it is waited for, and a leased one too, though others are misplaced."""
    spoil(tmp_path, IN_NO_PLACE)
    waiting = await app.operator.drain(timeout=5)
    await lease(app, 4)
    leased = await app.operator.drain(timeout=5)

    assert (waiting.status, waiting.remaining) == ("timeout", 5)
    assert (leased.status, leased.remaining) == ("timeout", 5)
