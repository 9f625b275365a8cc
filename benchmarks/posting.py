"""POST of one record over HTTP, at rest and while workers embed at full load, in turns.

Real processes: the server, the workers and the caller, over loopback. At rest the queue is paused; under load more
records wait than the workers can embed in the time.
"""

import asyncio
import json
import socket
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import httpx

import fill
import process
from embedq.model import JobFilter, JobStatus
from embedq.stores.sqlite import SqliteStore
from figure import Figure, Scale, p95, plain
from place import HOME, folder

RATE = 100  # posts a second


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
        figures.append(plain(name, busy, "ms", at_most=round(idle + 10, 1), reference=idle, what="at rest; bound: + 10 ms"))
    return figures


async def _in_turns(setting: Setting, seconds: int, rounds: int) -> tuple[float, float]:
    idle, busy, first = [], [], 0
    with folder() as place:
        path = place / "post.db"
        await fill.declare(path, setting.embedder)
        store = await SqliteStore.open(path)
        await store.pause()
        async with _running(setting, path, store) as post:
            await post(1, first)
            for number in range(1, 1 + rounds):
                fill.pending(path, fill.rows((seconds + 1) * setting.backlog, salt=f"{number}-"))
                first += 100_000
                idle.append(p95(await post(seconds, first)))
                busy.append(p95(await _under_load(store, post(seconds, first + 50_000))))
        await store.close()
    return median(idle), median(busy)


async def _under_load(store: SqliteStore, posting: "asyncio.Future[list[float]]") -> list[float]:
    raise NotImplementedError
