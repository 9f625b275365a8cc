"""The workers of one process: started, watched, restarted and stopped together."""

import asyncio
import secrets
from collections.abc import Sequence
from datetime import timedelta
from importlib.metadata import version

from embedq.errors import StoreError, StoreUnusable
from embedq.model import HealthReport, Process, RetryPolicy, WorkerId, WorkerInfo
from embedq.policy.attempts import delay, fault_of
from embedq.policy.health import Tally
from embedq.ports import WorkerStore
from embedq.telemetry import Event, Telemetry
from embedq.worker.context import Timing, WorkerContext, first_of
from embedq.worker.embedders import Build, Embedders
from embedq.worker.health import PoolHealth
from embedq.worker.heartbeat import Heartbeat
from embedq.worker.options import WorkerOptions
from embedq.worker.runner import Runner

RESTARTING = RetryPolicy(cap=timedelta(seconds=60))
HAND_BACK = timedelta(seconds=5)  # for settling and releasing after the grace period


class Pool:
    """N workers, each restarted with backoff if it dies."""

    def __init__(
        self,
        store: WorkerStore,
        build: Build,
        *,
        process: Process,
        options: WorkerOptions,
        telemetry: Telemetry,
        timing: Timing | None = None,
    ) -> None:
        """Work on this store with embedders made by `build`, which the caller closes."""
        self._store = store
        self._build = build
        self._process = process
        self._options = options
        self._telemetry = telemetry
        self._timing = timing or Timing()
        self._health = PoolHealth(telemetry, self._timing.now)
        self._stopping = asyncio.Event()
        self._revived = asyncio.Event()
        self._infos: Sequence[WorkerInfo] = ()
        self._runners: dict[WorkerId, Runner] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._embedders: Embedders | None = None
        self._heartbeat: Heartbeat | None = None

    @property
    def workers(self) -> Sequence[WorkerId]:
        """The names under which the workers are registered."""
        return list(self._runners)

    @property
    def is_running(self) -> bool:
        """Say whether the pool was started and not stopped."""
        return self._heartbeat is not None

    def report(self) -> HealthReport:
        """Return the pool's health, with the counts of all its workers."""
        reports = [runner.report() for runner in self._runners.values()]
        tally = Tally(succeeded=sum(r.succeeded for r in reports), failed=sum(r.failed for r in reports))
        return self._health.report(tally)

    async def start(self) -> None:
        """Register the workers and start them. A failed start can be retried: the names stay the same."""
        if self.is_running:
            return
        self._stopping, self._revived = asyncio.Event(), asyncio.Event()
        self._health = PoolHealth(self._telemetry, self._timing.now)
        context = WorkerContext(
            store=self._store,
            telemetry=self._telemetry,
            options=self._options,
            timing=self._timing,
            health=self._health,
            stopping=self._stopping,
        )
        embedders = Embedders(context, self._build)
        infos = self._infos = self._infos or [self._info(number) for number in range(1, self._options.workers + 1)]
        for info in infos:
            await self._store.register(info)
        heartbeat = self._new_heartbeat(asyncio.get_running_loop())
        await heartbeat.start()
        self._embedders, self._heartbeat = embedders, heartbeat
        self._runners = {info.id: Runner(context, embedders, info) for info in infos}
        self._tasks = [asyncio.create_task(self._supervise(context, embedders, info)) for info in infos]

    async def stop(self, grace: timedelta | None = None) -> None:
        """Stop leasing, let calls in progress finish within `grace`, settle or release everything, and unregister."""
        if self._heartbeat is None or self._embedders is None:
            return
        self._stopping.set()
        await self._finish(self._options.grace if grace is None else grace)
        await self._embedders.close()
        await self._heartbeat.stop()
        self._heartbeat, self._embedders, self._infos = None, None, ()
        for worker in self._runners:
            await self._leave(worker)

    def revive(self) -> None:
        """Retry what is halted: an operator has acted."""
        self._health.set_broken(broken=False)
        self._revived.set()
        if self._embedders is not None:
            self._embedders.revive()

    async def _finish(self, grace: timedelta) -> None:
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks, timeout=grace.total_seconds())
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=HAND_BACK.total_seconds())
        self._tasks = []

    async def _supervise(self, context: WorkerContext, embedders: Embedders, info: WorkerInfo) -> None:
        """Run one worker, and restart it until the pool stops."""
        deaths = 0
        while not self._stopping.is_set():
            runner = self._runners[info.id]
            try:
                await runner.run()
            except StoreUnusable as error:
                await self._wait_for_operator(error)
            except Exception as error:  # noqa: BLE001 a service loop: a worker that dies is restarted
                deaths = 1 if runner.has_worked else deaths + 1
                span = delay(RESTARTING, deaths - 1, self._timing.chance())
                self._report_restart(info, error, deaths, span)
                await context.sleep(span)
            self._runners[info.id] = Runner(context, embedders, info)

    async def _wait_for_operator(self, error: StoreUnusable) -> None:
        self._revived.clear()
        self._telemetry.emit(Event.STORE_TROUBLE, level="critical", act="halt", error=str(error), code=error.code)
        self._health.set_broken(broken=True)
        await first_of(self._revived.wait(), self._stopping.wait())

    def _report_restart(self, info: WorkerInfo, error: Exception, deaths: int, span: timedelta) -> None:
        fault = fault_of(error)
        self._telemetry.emit(
            Event.RUNNER_RESTARTED,
            level="error",
            workerId=info.id,
            deaths=deaths,
            seconds=span.total_seconds(),
            error=f"{fault.code}: {fault.message}",
            stack=fault.stack,
        )

    async def _leave(self, worker: WorkerId) -> None:
        try:
            await self._store.leave(worker)
        except StoreError as error:
            self._telemetry.emit(Event.STORE_TROUBLE, level="warning", act="leave", error=str(error), workerId=worker)

    def _new_heartbeat(self, loop: asyncio.AbstractEventLoop) -> Heartbeat:
        def on_resume() -> None:
            loop.call_soon_threadsafe(self.revive)

        return Heartbeat(
            self._store,
            self._telemetry,
            interval=self._options.heartbeat,
            span=self._options.lease,
            workers=lambda: list(self._runners.values()),
            on_resume=on_resume,
        )

    def _info(self, number: int) -> WorkerInfo:
        host = self._process.host.split("/", 1)[0]
        name = WorkerId(f"{host}-{self._process.pid}-{secrets.token_hex(3)}-{number}")
        return WorkerInfo(id=name, process=self._process, version=version("embedq"), embedder=self._options.embedder)
