"""The product in processes of its own, as people run it, and what the kernel says of them."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import fill
from embedq.model import Counts
from embedq.stores.sqlite import SqliteStore

PATIENCE = 60.0  # seconds until a process must have started
HEARTBEAT = timedelta(seconds=60)


@contextmanager
def embedq(path: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of the CLI on this file until the block ends, then stop it as a person would."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("EMBED", "CHL_"))}
    environment["EMBEDQ_URL"] = f"sqlite:///{path}"
    command = [sys.executable, "-m", "embedq", *words]
    with (
        path.with_name(f"{words[0]}.log").open("ab") as log,
        subprocess.Popen(command, env=environment, cwd=path.parent, stdout=log, stderr=log) as child,
    ):
        try:
            yield child
        finally:
            child.send_signal(signal.SIGTERM)
            _wait_for(child)


def _wait_for(child: subprocess.Popen[bytes]) -> None:
    try:
        child.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        raise


async def workers_ready(store: SqliteStore, wanted: int, *children: subprocess.Popen[bytes]) -> None:
    """Wait until so many workers have registered."""
    deadline = time.monotonic() + PATIENCE
    while sum(worker.alive for worker in await store.workers(heartbeat=HEARTBEAT)) < wanted:
        assert all(child.poll() is None for child in children), "a process ended before it worked"
        assert time.monotonic() < deadline, "the workers did not start"
        await asyncio.sleep(0.05)


async def until(store: SqliteStore, is_so: Callable[[Counts], bool]) -> None:
    """Wait until the sums of the benchmark's collection are as wanted."""
    async with asyncio.timeout(PATIENCE):
        while not is_so(await counts(store)):  # noqa: ASYNC110 what another process does sets no event here
            await asyncio.sleep(0.02)


async def counts(store: SqliteStore) -> Counts:
    """Read the sums of the benchmark's collection."""
    return (await store.counts())[fill.NAME]


def cpu_seconds(pid: int) -> float:
    """Say what a process has used of the processor, all threads together, to the nanosecond."""
    spent = (file.read_text().split()[0] for file in Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(map(int, spent)) / 1e9


def resident_megabytes(pid: int) -> float:
    """Say how much of a process is in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024
