"""The peers: how each is filled and drained, by processes of its own."""

import asyncio
import json
import shutil
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from dataclasses import dataclass
from time import time

import asyncpg

from embedq.testing.postgres import PostgresAddress
from place import BUILD, HOME, folder
from postgres.ground import connected, database
from texts import text

SCRIPTS = HOME / "peers"
PYTHON = BUILD / "peers" / "python" / "bin" / "python"
NODE = BUILD / "peers" / "node"  # its scripts must lie beside its modules to find them
PATIENCE = 300.0  # seconds
LOOK = 0.02  # seconds between two looks at the database


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another queue on PostgreSQL."""

    name: str
    script: str
    jobs: int  # fewer for slower ones
    left: str  # a statement: is anything left to do?
    at_least: float  # how much faster ours has to be

    @property
    def command(self) -> list[str]:
        """What runs its script."""
        if self.script.endswith(".py"):
            return [str(PYTHON), str(SCRIPTS / self.script)]
        own = NODE / "node_modules" / ".bin" / "node"
        shutil.copy(SCRIPTS / self.script, NODE)
        return [str(own) if own.exists() else "node", str(NODE / self.script)]


PEERS = (
    Peer(
        name="pgqueuer",
        script="drain_pgqueuer.py",
        jobs=20_000,
        left="SELECT EXISTS (SELECT FROM pgqueuer)",
        at_least=3.0,
    ),
    Peer(
        name="graphile-worker",
        script="drain_graphile_worker.mjs",
        jobs=40_000,
        left="SELECT EXISTS (SELECT FROM graphile_worker._private_jobs)",
        at_least=1.3,
    ),
    Peer(
        name="pg-boss",
        script="drain_pg_boss.mjs",
        jobs=40_000,
        left="SELECT EXISTS (SELECT FROM pgboss.job WHERE name = 'nothing' AND state < 'completed')",
        at_least=1.0,
    ),
    Peer(
        name="procrastinate",
        script="drain_procrastinate.py",
        jobs=1_000,
        left="SELECT EXISTS (SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing'))",
        at_least=1.0,
    ),
)


async def drain(address: PostgresAddress, peer: Peer, jobs: int, processes: int) -> float:
    """Fill a peer's queue and let so many processes empty it; answer with jobs per second.

    The watch starts when the last of them does its first job, without what was done until then, and stops when the
    database says that nothing is left.
    """
    with database(address, "peer") as url:
        await _fill(peer, url, jobs)
        async with connected(url) as db:
            await db.execute("VACUUM ANALYZE")
            await db.execute("CHECKPOINT")
            running = [await _start(peer, url, "drain") for _ in range(processes)]
            ended = await _until_empty(db, peer, running)
            moments: list[list[float]] = [json.loads(await _said(process)) for process in running]
    began = max(done[0] for done in moments if done)
    later = sum(moment > began for done in moments for moment in done)
    assert sum(map(len, moments)) == jobs, f"{peer.name} did {sum(map(len, moments))} of {jobs} jobs"
    return later / (ended - began)


async def _fill(peer: Peer, url: str, jobs: int) -> None:
    with folder() as place:
        texts = place / "texts.json"
        texts.write_text(json.dumps([text(number) for number in range(jobs)]))
        await _said(await _start(peer, url, "fill", str(texts)))


async def _start(peer: Peer, url: str, *words: str) -> Process:
    return await asyncio.create_subprocess_exec(*peer.command, url, *words, stdout=PIPE, stderr=PIPE, limit=1 << 26)


async def _said(process: Process) -> str:
    async with asyncio.timeout(PATIENCE):
        said, complaints = await process.communicate()
    assert process.returncode == 0, f"a peer ended with {process.returncode}: {complaints.decode()[-2000:]}"
    return said.decode()


async def _until_empty(db: asyncpg.Connection, peer: Peer, running: Sequence[Process]) -> float:
    """Wait for the last job; looks that take long come seldom, so as not to be in the peer's way."""
    async with asyncio.timeout(PATIENCE):
        while True:
            looked_at = time()
            if not await db.fetchval(peer.left):
                return looked_at
            assert not any(process.returncode for process in running), f"{peer.name} ended before its queue was empty"
            await asyncio.sleep(max(LOOK, 10 * (time() - looked_at)))
