"""The product's own workers, held back until the watch runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter

from embedq.app import App, load, start
from embedq.telemetry import Event, Facts

PATIENCE = 300.0  # seconds


class Crew:
    """A paused process of workers on a file; `work_off` lets them go and says how long they took."""

    def __init__(self, app: App) -> None:
        """Listen to what the workers settle."""
        self.app = app
        self._left = 0
        self._finished = asyncio.Event()
        app.telemetry.add(self._hear)

    async def work_off(self, jobs: int) -> float:
        """Resume, wait until so many jobs are done, pause again; answer with the seconds."""
        self._left = jobs
        self._finished.clear()
        started = perf_counter()
        await self.app.store.resume()
        async with asyncio.timeout(PATIENCE):
            await self._finished.wait()
        spent = perf_counter() - started
        await self.app.store.pause()
        return spent

    def _hear(self, event: Event, _level: str, facts: Facts) -> None:
        if event is not Event.SETTLED:
            return
        assert not facts["failed"], "a job failed"
        self._left -= facts["done"]
        if self._left <= 0:
            self._finished.set()


@asynccontextmanager
async def crew(path: Path, *, embedder: str, workers: int = 2) -> AsyncIterator[Crew]:
    """Start paused workers on this file."""
    settings = load(url=f"sqlite:///{path}", embedder=embedder, workers=workers)
    async with start(settings, quiet=True) as app:
        await app.store.pause()
        held = Crew(app)
        async with app.working(workers):
            yield held
