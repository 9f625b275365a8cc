"""The operator over a real database: what people who run it can rely on."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from embedq.app import App, load, start
from embedq.errors import Conflict, Invalid, NotFound
from embedq.model import (
    Ask,
    ErrorCategory,
    Failed,
    Fault,
    Health,
    HealthReport,
    JobFilter,
    JobStatus,
    Lease,
    Reason,
    WorkerId,
    WorkerInfo,
)
from embedq.operator import DeadReason, Finding, Verdict
from embedq.shapes.queue import QueueStatus, Ready
from embedq.upkeep import HostLiveness


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[App]:
    async with start(load(url=f"sqlite:///{tmp_path}/notes.db", embedder="fake"), quiet=True) as opened:
        await opened.client.put("notes", [{"id": str(n), "text": f"note {n}"} for n in range(5)])
        yield opened


async def lease(app: App, limit: int, minutes: float = 5) -> list[Lease]:
    spaces = [space.id for space in await app.store.spaces()]
    ask = Ask(worker=WorkerId("w"), spaces=spaces, limit=limit, span=timedelta(minutes=minutes))
    return list((await app.store.lease(ask)).leases)


async def kill(app: App, jobs: int, reason: Reason = Reason.PERMANENT_ERROR) -> list[Lease]:
    leases = await lease(app, jobs)
    fault = Fault(ErrorCategory.PERMANENT, "400", "no such luck")
    await app.store.settle([Failed(one, fault, reason) for one in leases])
    return leases


async def test_the_status_counts_by_state_and_collection(app: App) -> None:
    """Counts, coverage, oldest and workers, in the shape that both doors show."""
    await kill(app, 2)
    await lease(app, 1)

    facts = QueueStatus.of(await app.operator.status()).model_dump(mode="json")

    totals = {name: entry["total"] for name, entry in facts["queue"].items()}
    assert totals == {"pending": 2, "processing": 1, "completed": 0, "failed": 2, "cancelled": 0}
    assert facts["queue"]["pending"]["by_collection"] == {"notes": 2}
    assert facts["coverage"] == {"total": 0.0, "by_collection": {"notes": 0.0}}
    assert facts["oldest_pending_seconds"]["max"] >= 0
    assert (facts["paused"], facts["recovery"]) == (False, "on")
    assert [worker["id"] for worker in facts["workers"]["workers"]] == ["w"]


async def test_work_that_waits_for_nobody_is_said(app: App) -> None:
    """No worker alive while jobs wait is no health; a pause is by intent."""
    status = await app.operator.status()
    assert status.health == "DEGRADED"
    assert any("no worker is alive" in note for note in status.notes)

    await app.operator.pause()

    assert (await app.operator.status()).health == "HEALTHY"


async def test_one_of_a_thing_is_said_as_one(app: App) -> None:
    """Notes count as people do: one dead letter, two dead letters."""
    await kill(app, 1)
    assert "1 dead letter: see `embedq dead stats`" in (await app.operator.status()).notes

    await kill(app, 1)

    assert "2 dead letters: see `embedq dead stats`" in (await app.operator.status()).notes


def test_reasons_of_dead_letters_are_reasons() -> None:
    """Each is one of the model's; those of cancelled jobs are not among them."""
    assert {Reason(reason) for reason in DeadReason} == set(Reason) - {Reason.RECORD_DELETED, Reason.CANCELLED}


async def test_recovery_that_is_off_is_said(tmp_path: Path) -> None:
    """Health and doctor say so, since stuck jobs stay then."""
    settings = load(url=f"sqlite:///{tmp_path}/notes.db", embedder="fake", recovery_interval_ms=0)
    async with start(settings, quiet=True) as app:
        assert QueueStatus.of(await app.operator.status()).recovery == "off"
        assert any("EMBED_JOB_RECOVERY_INTERVAL=0" in note for note in (await app.operator.status()).notes)
        findings = {finding.check: finding for finding in await app.operator.doctor()}
        assert findings["recovery"].verdict is Verdict.WARNING


async def test_a_drain_while_paused_waits_for_leased_jobs_only(app: App) -> None:
    """What cannot move is not waited for, and the answer says what is left."""
    await app.operator.pause()

    report = await app.operator.drain(timeout=5)

    assert (report.status, report.waited_for, report.remaining, report.pending) == ("drained", "leased", 0, 5)


async def test_a_drain_that_runs_out_says_what_is_left(app: App) -> None:
    """Leased jobs hold a paused drain; pending ones too hold a running one."""
    await lease(app, 2)

    running = await app.operator.drain(timeout=0)
    await app.operator.pause()
    paused = await app.operator.drain(timeout=0.05)

    assert (running.status, running.waited_for, running.remaining) == ("timeout", "all", 5)
    assert (paused.status, paused.waited_for, paused.remaining) == ("timeout", "leased", 2)
    assert paused.elapsed >= 0.05


async def test_a_drain_ends_when_workers_have_done_all(tmp_path: Path) -> None:
    """It waits for every job, and not longer."""
    settings = load(url=f"sqlite:///{tmp_path}/w.db", embedder="fake", poll_seconds=0.1)
    async with start(settings, quiet=True) as app, app.working(1):
        await app.client.put("notes", [{"id": str(n), "text": f"note {n}"} for n in range(200)])

        report = await app.operator.drain(timeout=60)

        assert (report.status, report.waited_for, report.remaining) == ("drained", "all", 0)
        assert (await app.operator.status()).coverage == 1.0


async def test_dead_letters_are_listed_grouped_and_replayed(app: App) -> None:
    """One by its id, or all by a filter; each goes at most once."""
    [first, *_] = await kill(app, 2)
    await kill(app, 1, Reason.QUOTA)

    assert len((await app.operator.dead()).items) == 3
    assert [job.reason for job in (await app.operator.dead(reason=Reason.QUOTA)).items] == ["quota"]
    assert sum(group["count"] for group in await app.operator.dead_stats()) == 3

    assert (await app.operator.replay(first.job_id)).status is JobStatus.PENDING
    with pytest.raises(Conflict):
        await app.operator.replay(first.job_id)
    by_reason = await app.operator.replay_all(JobFilter(reason=Reason.QUOTA))
    assert by_reason.by_collection == {"notes": 1}
    assert (await app.operator.retry_failed()).by_collection == {"notes": 1}
    assert (await app.operator.retry_failed("notes")).total == 0
    with pytest.raises(NotFound):
        await app.operator.retry_failed("nope")
    with pytest.raises(NotFound):
        await app.operator.replay("123456")


async def test_jobs_are_read_and_cancelled(app: App) -> None:
    """A pending job can be cancelled once; a finished one cannot."""
    page = await app.operator.jobs(JobFilter(status=JobStatus.PENDING), limit=2)
    assert len(page.items) == 2
    job = page.items[0]

    assert (await app.operator.cancel(job.id)).status is JobStatus.CANCELLED
    with pytest.raises(Conflict, match="cancelled"):
        await app.operator.cancel(job.id)
    assert (await app.operator.replay(job.id)).status is JobStatus.PENDING
    for act in (app.operator.job("99999"), app.operator.cancel("99999"), app.operator.jobs(JobFilter(collection="no"))):
        with pytest.raises(NotFound):
            await act
    with pytest.raises(Invalid):
        await app.operator.jobs(limit=0)


async def test_stale_jobs_are_taken_back_by_hand(app: App) -> None:
    """Without a threshold only expired leases; with one also those that were not renewed for so long."""
    leases = await lease(app, 2)
    assert await app.operator.requeue_stale() == []

    rescued = await app.operator.requeue_stale(threshold_minutes=0)

    assert {job.job_id for job in rescued} == {one.job_id for one in leases}
    with pytest.raises(Invalid):
        await app.operator.requeue_stale(-1)


async def test_repair_finds_nothing_where_nothing_is_wrong(app: App) -> None:
    """On one database a record without vector has its job; the walk says what it saw, and a limit ends it."""
    seen: list[tuple[str, int]] = []

    report = await app.operator.repair(deep=True, progress=lambda name, records: seen.append((name, records)))
    short = await app.operator.repair(limit=3)

    assert (report.armed, report.complete, report.by_collection["notes"].missing) == (0, True, 5)
    assert seen
    assert (short.complete, short.by_collection["notes"].missing) == (False, 3)
    with pytest.raises(Invalid):
        await app.operator.repair(limit=0)


async def test_missing_lists_a_few(app: App) -> None:
    """Ten by default, and never more than asked for."""
    assert len(await app.operator.missing("notes")) == 5
    assert len(await app.operator.missing("notes", limit=2)) == 2
    with pytest.raises(NotFound):
        await app.operator.missing("nope")


async def test_workers_register_and_show_signs_of_life(app: App) -> None:
    """A worker that is not registered cannot beat."""
    info = await app.operator.register(host="elsewhere", pid=7, version="1", embedder="fake")

    await app.operator.beat(info.id, HealthReport(succeeded=3))
    [worker] = await app.operator.workers()

    assert (worker.info.id, worker.alive, worker.report.succeeded) == (info.id, True, 3)
    with pytest.raises(NotFound):
        await app.operator.beat("nobody")


async def enter(app: App, name: str, *, is_dead: bool = False, report: HealthReport | None = None) -> None:
    """Register a worker of this process, or of one that is gone."""
    process = replace(HostLiveness().me(), born="0") if is_dead else HostLiveness().me()
    await app.store.register(WorkerInfo(id=WorkerId(name), process=process, version="1", embedder="fake"))
    await app.store.beat(WorkerId(name), report or HealthReport())


async def check(app: App, name: str) -> Finding:
    """Ask the doctor for one check."""
    [found] = [finding for finding in await app.operator.doctor() if finding.check == name]
    return found


async def test_a_dead_worker_is_told_beside_living_ones(app: App) -> None:
    """The fleet works on, so it is a warning; the list of workers says which one is gone."""
    await enter(app, "dead", is_dead=True)
    await enter(app, "living")

    found = await check(app, "workers")

    assert found.verdict is Verdict.WARNING
    assert "worker dead is dead" in found.message
    assert {worker.info.id: worker.alive for worker in await app.operator.workers()} == {"dead": False, "living": True}
    assert (await app.operator.status()).health == "DEGRADED"


async def test_jobs_without_a_worker_are_a_problem_unless_paused(app: App) -> None:
    """Leased jobs of a dead worker count as waiting; in a pause nobody is missed."""
    await enter(app, "w", is_dead=True)
    await lease(app, 5)
    found = await check(app, "workers")
    assert (found.verdict, "5 jobs waiting" in found.message) == (Verdict.PROBLEM, True)

    await app.operator.pause()

    assert (await check(app, "workers")).verdict is Verdict.WARNING


async def test_troubles_are_told_once_for_all_workers(app: App) -> None:
    """Halted in one process and failing in another, an embedder is halted."""
    halted = HealthReport(health=Health.CRITICAL, halted=("openai:a",), troubles={"openai:a": "check the key"})
    failing = HealthReport(health=Health.DEGRADED, troubles={"openai:a": "502", "openai:b": "503"})
    await enter(app, "one", report=halted)
    await enter(app, "two", report=failing)

    notes = (await app.operator.status()).notes
    found = await check(app, "workers")

    assert [note.split(": ")[0] for note in notes] == ["embedder openai:a is halted", "embedder openai:b fails"]
    assert found.verdict is Verdict.PROBLEM
    assert "check the key" in found.message
    assert "503" in found.message


async def test_the_doctor_looks_at_everything(app: App) -> None:
    """Each check has a finding; what needs a person is no ok."""
    findings = {finding.check: finding.verdict for finding in await app.operator.doctor()}

    assert set(findings) == {
        "database",
        "queue",
        "workers",
        "dead letters",
        "recovery",
        "clock",
        "places",
        "disk",
        "embedder",
    }
    assert (findings["database"], findings["embedder"]) == (Verdict.OK, Verdict.OK)
    assert (findings["workers"], findings["dead letters"]) == (Verdict.PROBLEM, Verdict.OK)
    await kill(app, 1)
    findings = {finding.check: finding.verdict for finding in await app.operator.doctor()}
    assert findings["dead letters"] is Verdict.WARNING


async def test_health_is_ready_while_the_database_answers(app: App) -> None:
    """Readiness never raises."""
    ready = await app.operator.health()

    assert (ready.ready, ready.database) == (True, "ok")
    assert Ready.of(ready).status == "ready"


async def test_a_pause_is_seen_by_other_processes_views(app: App, tmp_path: Path) -> None:
    """It lives in the database: another application on the same file sees it."""
    async with start(load(url=f"sqlite:///{tmp_path}/notes.db", embedder="fake"), quiet=True) as other:
        await app.operator.pause()
        assert (await other.operator.status()).paused
        await other.operator.resume()
        assert not await asyncio.wait_for(app.store.paused(), 5)
