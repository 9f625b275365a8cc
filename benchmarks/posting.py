"""POST of one record over HTTP, at rest and while workers embed at full load, in turns.

Real processes: the server, the workers and the caller, over loopback. At rest the queue is paused; under load more
records wait than the workers can embed in the time.
"""

import asyncio
import json
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import fill
import process
from embedq.stores.sqlite import SqliteStore
from figure import Figure, Scale, p95, plain
from place import HOME, folder

RATE = 100  # posts a second
Post = Callable[[int], Awaitable[list[float]]]  # for so many seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Who runs on the file, and how much they have to do."""

    name: str
    embedder: str
    commands: Sequence[Sequence[str]]  # the first one serves
    workers: int
    backlog: int  # records per second of load: more than can be embedded


ONE = Setting(name="in one process", embedder="fake", commands=[["up"]], workers=2, backlog=40_000)
BESIDE = Setting(
    name="beside two worker processes",
    embedder="fake",
    commands=[["serve"], ["work"], ["work"]],
    workers=4,
    backlog=50_000,
)
LOCAL = Setting(name="local model", embedder="local", commands=[["up"]], workers=2, backlog=800)


async def measure(scale: Scale) -> list[Figure]:
    """Measure the milliseconds of a POST, p95."""
    seconds, rounds = scale.pick(4, 2), scale.pick(3, 2)
    local_idle, local = await _in_turns(LOCAL, seconds, rounds)
    figures = [
        plain("POST while the local model embeds, p95", local, "ms", at_most=30, reference=local_idle, what="at rest")
    ]
    for setting in (ONE, BESIDE):
        idle, busy = await _in_turns(setting, seconds, rounds)
        name = f"POST while the fake embedder runs flat out, {setting.name}, p95"
        figures.append(
            plain(name, busy, "ms", at_most=round(idle + 10, 1), reference=idle, what="at rest; bound: + 10 ms")
        )
    return figures


async def _in_turns(setting: Setting, seconds: int, rounds: int) -> tuple[float, float]:
    """Post at rest, under load, at rest, under load; answer with the median of each one's p95."""
    idle, busy = [], []
    with folder() as place:
        path = place / "post.db"
        await fill.declare(path, setting.embedder)
        store = await SqliteStore.open(path)
        await store.pause()
        async with _running(setting, path, store) as post:
            await _warm(setting, path, store, post)
            for number in range(rounds):
                fill.pending(path, fill.rows((seconds + 1) * setting.backlog, salt=f"{number}-"))
                idle.append(p95(await post(seconds)))
                busy.append(p95(await _under_load(store, post, seconds)))
        await store.close()
    return median(idle), median(busy)


@asynccontextmanager
async def _running(setting: Setting, path: Path, store: SqliteStore) -> AsyncIterator[Post]:
    """Start the processes; hand out a way to post."""
    port = _free_port()
    async with AsyncExitStack() as stack:
        for command in setting.commands:
            words = (*command, "--embedder", setting.embedder)
            address = () if command == ["work"] else ("--port", str(port))
            child = stack.enter_context(process.embedq(path, *words, *address))
        await process.workers_ready(store, setting.workers, child)
        await _answering(port)
        url = f"http://127.0.0.1:{port}/collections/{fill.NAME}/records"
        poster = await asyncio.create_subprocess_exec(
            sys.executable, str(HOME / "poster.py"), url, stdin=PIPE, stdout=PIPE, limit=1 << 24
        )
        assert poster.stdin is not None
        assert poster.stdout is not None
        first, asked, answers = 0, poster.stdin, poster.stdout

        async def post(seconds: int) -> list[float]:
            nonlocal first
            asked.write(f"{seconds} {RATE} {first}\n".encode())
            first += seconds * RATE
            spans: list[float] = json.loads(await answers.readline())
            return spans

        try:
            yield post
        finally:
            asked.close()
            await poster.wait()


async def _warm(setting: Setting, path: Path, store: SqliteStore, post: Post) -> None:
    """Load models and open connections before anything is timed."""
    await post(1)
    fill.pending(path, fill.rows(setting.backlog // 4, salt="warm-"))
    await store.resume()
    await process.until(store, lambda counts: not counts.pending and not counts.processing)
    await store.pause()


async def _under_load(store: SqliteStore, post: Post, seconds: int) -> list[float]:
    done = (await process.counts(store)).completed
    await store.resume()
    await process.until(store, lambda counts: counts.completed > done)
    spans = await post(seconds)
    assert (await process.counts(store)).pending, "the workers ran out of work: the load was not full"
    await store.pause()
    await process.until(store, lambda counts: not counts.processing)
    return spans


async def _answering(port: int) -> None:
    async with asyncio.timeout(process.PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
