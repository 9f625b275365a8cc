"""All components of one process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from embedq import __version__
from embedq.app.embedq import EmbedQ
from embedq.app.extras import require
from embedq.app.startup_retry import StartupRetry
from embedq.embedders.registry import EmbedderRegistry
from embedq.model import EmbedderName
from embedq.operator import Operator
from embedq.policy.naming import parse_embedder
from embedq.ports import Store
from embedq.settings import Settings
from embedq.telemetry import Event, Telemetry
from embedq.upkeep import HostLiveness, Upkeep, UpkeepOptions
from embedq.worker import Pool, WorkerOptions

if TYPE_CHECKING:
    from embedq.metrics import Metrics

RECONCILE_PAIRS = timedelta(minutes=5)
LOADING = timedelta(seconds=30)  # a model that takes longer is loaded beside the first requests


@runtime_checkable
class Warming(Protocol):
    """An embedder that must load something before its first call."""

    async def warm(self) -> None:
        """Load it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """All components of one process."""

    settings: Settings
    telemetry: Telemetry
    store: Store
    embedders: EmbedderRegistry
    client: EmbedQ
    startup: StartupRetry
    metrics: "Metrics | None" = None  # only where the API is served
    _liveness: HostLiveness = field(default_factory=HostLiveness)

    @property
    def operator(self) -> Operator:
        """What people who run it call."""
        return self.client.operator

    @asynccontextmanager
    async def working(self, workers: int) -> AsyncIterator[None]:
        """Run workers and upkeep inside the block, and stop them cleanly at its end. With 0 workers neither runs."""
        async with AsyncExitStack() as stack:
            if workers or self.metrics is not None:
                await self._check_embedder(stack)
            backlog = await self.startup.run(self._backlog)  # before any worker starts
            duties = await self._begin(stack, workers) if workers else []
            self.telemetry.emit(Event.STARTED, **self._boot_facts(workers, duties), **backlog)
            stack.callback(self.telemetry.emit, Event.STOPPING)
            yield

    async def _begin(self, stack: AsyncExitStack, workers: int) -> list[str]:
        upkeep, pool = self._upkeep(), self._pool(workers)
        stack.push_async_callback(upkeep.stop)
        upkeep.start()
        stack.push_async_callback(pool.stop)
        await self.startup.run(pool.start)
        return upkeep.duties

    async def warm(self, name: EmbedderName) -> None:
        """Load what an embedder needs before its first call."""
        embedder = await self.embedders.get(name)
        if isinstance(embedder, Warming):
            await embedder.warm()

    async def _check_embedder(self, stack: AsyncExitStack) -> None:
        """Refuse to start with an embedder that lacks its key or weights; else load it.

        Where requests will be answered, it is loaded before the first one: imports hold the interpreter's lock.
        """
        require(self.settings, serving=False)
        name = self.embedders.canonical(parse_embedder(self.settings.embedder))
        await self._fetch_files(name)
        await self.embedders.get(name)
        warming = asyncio.create_task(self.warm(name), name="embedq-warm")
        warming.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # the first call reports why
        stack.callback(warming.cancel)
        if self.metrics is not None:
            await asyncio.wait([warming], timeout=LOADING.total_seconds())

    async def _fetch_files(self, name: EmbedderName) -> None:
        files, began = self.embedders.files(name), monotonic()
        if files is None or await files.find() is not None:
            return
        self.telemetry.emit(Event.MODEL, act="fetching", embedder=str(name))
        folder = await files.fetch(lambda _done, _all: None)
        seconds = round(monotonic() - began, 3)
        self.telemetry.emit(Event.MODEL, act="fetched", embedder=str(name), folder=str(folder), seconds=seconds)

    def _pool(self, workers: int) -> Pool:
        settings = self.settings
        options = WorkerOptions(
            workers=workers,
            batch_size=settings.batch_size,
            lease=settings.lease,
            heartbeat=settings.heartbeat,
            attempt_deadline=timedelta(seconds=settings.attempt_seconds),
            poll_interval=timedelta(seconds=settings.poll_seconds),
            budget=settings.budget,
            embedder=settings.embedder,
        )
        return Pool(
            self.store, self.embedders.build, process=self._liveness.me(), options=options, telemetry=self.telemetry
        )

    def _upkeep(self) -> Upkeep:
        options = UpkeepOptions(
            rescue_interval=self.settings.recovery or timedelta(0),
            heartbeat=self.settings.heartbeat,
            retention=self.settings.retention,
            retry_failed_on_startup=self.settings.retry_failed_on_startup,
            **self._between_databases(),
        )
        return Upkeep(self.store, self._liveness, options=options, telemetry=self.telemetry)

    def _between_databases(self) -> dict[str, Any]:
        """With the queue in another database, a crash may leave records without a job: reconcile often."""
        if self.settings.queue_url in (None, self.settings.url):
            return {}
        return {"one_database": False, "reconcile_interval": RECONCILE_PAIRS}

    async def _backlog(self) -> dict[str, Any]:
        """Count the jobs left from an earlier run, for the startup log line."""
        counts = (await self.store.counts()).values()
        return {"pending": sum(c.pending for c in counts), "processing": sum(c.processing for c in counts)}

    def _boot_facts(self, workers: int, duties: list[str]) -> dict[str, Any]:
        settings = self.settings
        return {
            "version": __version__,
            "url": settings.shown_url,
            **({"queue_url": settings.shown_queue_url} if settings.shown_queue_url else {}),
            "workers": workers,
            "embedder": settings.embedder,
            "upkeep": duties,
            "assumed": settings.assumed(),
        }
