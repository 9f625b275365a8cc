"""Heartbeats on a separate thread: an embedder that blocks the event loop must not lose leases."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Protocol

from embedq.model import HealthReport, Lease, WorkerId, WorkerInfo
from embedq.ports.needs import HeartbeatStore
from embedq.telemetry import Event, Telemetry, Trouble
from embedq.worker.held_leases import HeldLeases

LOOK_EVERY = timedelta(seconds=5)  # how soon a resume is noticed, and a change of health is reported
JOIN_SECONDS = 10.0
SHOWN = 20  # jobs named in one event


class Member(Protocol):
    """A worker as the heartbeat sees it."""

    info: WorkerInfo

    @property
    def held(self) -> HeldLeases:
        """The leases it holds."""
        ...

    def report(self) -> HealthReport:
        """Return this worker's health report."""
        ...


class Heartbeat:
    """Renews leases, reports health and detects a resume, on its own event loop."""

    def __init__(
        self,
        store: HeartbeatStore,
        telemetry: Telemetry,
        *,
        interval: timedelta,
        span: timedelta,
        workers: Callable[[], Sequence[Member]],
        on_resume: Callable[[], None],
    ) -> None:
        """Beat every `interval` for these workers, renewing for `span`; `on_resume` is called in this thread."""
        self._store = store
        self._telemetry = telemetry
        self._interval = interval
        self._span = span
        self._workers = workers
        self._on_resume = on_resume
        self._resumes = 0
        self._reported: dict[WorkerId, HealthReport] = {}
        self._troubles: dict[str, Trouble] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    async def start(self) -> None:
        """Start beating; every resume from now on is noticed."""
        self._resumes = await self._store.resumes()
        self._loop, self._stopped = asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._main, name="embedq-heartbeat", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Stop beating and wait for the thread."""
        if self._thread is None or self._loop is None or self._stopped is None:
            return
        self._loop.call_soon_threadsafe(self._stopped.set)
        await asyncio.to_thread(self._thread.join, JOIN_SECONDS)
        self._thread = None

    def _main(self) -> None:
        if self._loop is None:
            return
        try:
            self._loop.run_until_complete(self._run(self._loop))
        finally:
            self._loop.close()

    async def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        step = min(self._interval, LOOK_EVERY).total_seconds()
        beat_at = loop.time() + self._interval.total_seconds()
        while not await self._is_over(step):
            await self._try("resume", self._look)
            if loop.time() >= beat_at - step / 2:
                beat_at = loop.time() + self._interval.total_seconds()
                await self._try("renew", self._renew)
                await self._try("beat", self._beat)
            else:
                await self._try("tell", self._report)

    async def _is_over(self, seconds: float) -> bool:
        if self._stopped is None:
            return True
        try:
            async with asyncio.timeout(seconds):
                await self._stopped.wait()
        except TimeoutError:
            return False
        return True

    async def _renew(self) -> None:
        """Renew all leases in one call, and report those that are lost."""
        held = {member: member.held.all() for member in self._workers()}
        leases = [lease for some in held.values() for lease in some]
        if not leases:
            return
        ours = await self._store.renew(leases, span=self._span)
        for member, some in held.items():
            lost = member.held.lose(lease for lease in some if lease.job_id not in ours)
            if lost:
                self._report_lost(member, lost)

    async def _beat(self) -> None:
        self._reported.clear()
        await self._report()

    async def _report(self) -> None:
        """Report the workers whose health changed."""
        for member in self._workers():
            report = member.report()
            if self._reported.get(member.info.id) == report:
                continue
            if not await self._store.beat(member.info.id, report):
                await self._store.register(member.info)
            self._reported[member.info.id] = report

    async def _look(self) -> None:
        resumes = await self._store.resumes()
        if resumes != self._resumes:
            self._resumes = resumes
            self._on_resume()

    async def _try(self, act: str, do: Callable[[], Awaitable[None]]) -> None:
        trouble = self._troubles.setdefault(act, Trouble(self._telemetry, Event.HEARTBEAT_FAILED, act=act))
        try:
            await do()
        except Exception as error:  # noqa: BLE001 a service loop: the next beat may succeed
            trouble.met(f"{type(error).__name__}: {error}")
        else:
            trouble.over()

    def _report_lost(self, member: Member, lost: Sequence[Lease]) -> None:
        self._telemetry.emit(
            Event.LEASE_LOST,
            level="warning",
            workerId=member.info.id,
            at="renew",
            count=len(lost),
            jobs=[lease.job_id for lease in lost[:SHOWN]],
        )
