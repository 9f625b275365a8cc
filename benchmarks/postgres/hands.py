"""Worker processes that wait for a word: whoever is measured has its own interpreter, as on machines of its own."""

import asyncio
import multiprocessing
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from multiprocessing.connection import Connection
from time import perf_counter

PATIENCE = 120.0  # seconds until a process must have answered
SPAWN = multiprocessing.get_context("spawn")

Drain = Callable[[], Awaitable[int]]  # works until nothing is left, and says how many jobs it did
Worker = Callable[[str], AbstractAsyncContextManager[Drain]]  # made once per process, from the database's URL


class Hands:
    """Processes that are connected and warm, and drain the queue together when told to."""

    def __init__(self, pipes: list[Connection]) -> None:
        """Speak to them by these."""
        self._pipes = pipes

    async def drain(self, jobs: int) -> float:
        """Let them go; answer with jobs per second. Every job must have been done once."""
        started = perf_counter()
        for pipe in self._pipes:
            pipe.send("go")
        done = sum(await asyncio.gather(*(asyncio.to_thread(_answer, pipe) for pipe in self._pipes)))
        spent = perf_counter() - started
        assert done == jobs, f"{done} of {jobs} jobs were done"
        return jobs / spent


@asynccontextmanager
async def hands(count: int, worker: Worker, url: str) -> AsyncIterator[Hands]:
    """Start so many processes of this worker, and end them afterwards."""
    pairs = [SPAWN.Pipe() for _ in range(count)]
    processes = [SPAWN.Process(target=_main, args=(worker, url, theirs), daemon=True) for _, theirs in pairs]
    pipes = [ours for ours, _ in pairs]
    for process in processes:
        process.start()
    try:
        for pipe in pipes:
            await asyncio.to_thread(_answer, pipe)
        yield Hands(pipes)
    finally:
        for pipe in pipes:
            pipe.send("")
        for process in processes:
            await asyncio.to_thread(process.join, PATIENCE)


def _answer(pipe: Connection) -> int:
    assert pipe.poll(PATIENCE), "a worker process does not answer"
    answer: int = pipe.recv()
    return answer


def _main(worker: Worker, url: str, pipe: Connection) -> None:
    asyncio.run(_serve(worker, url, pipe))


async def _serve(worker: Worker, url: str, pipe: Connection) -> None:
    async with worker(url) as drain:
        pipe.send(0)
        while await asyncio.to_thread(pipe.recv):
            pipe.send(await drain())
