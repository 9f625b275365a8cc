"""Run by the peers' own Python: `drain_pgqueuer.py URL fill TEXTS` or `drain_pgqueuer.py URL drain`.

Settings: asyncpg, one connection per process, a large batch (it also sets how many results are written at once), and
no bound on how many tasks run at the same time.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

import asyncpg
from pgqueuer.db import AsyncpgDriver
from pgqueuer.models import Job
from pgqueuer.qm import QueueManager
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

BATCH = 1000


async def fill(url: str, texts: list[str]) -> None:
    """Install the queue and put a job for each text into it."""
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    await queries.install()
    await queries.enqueue(
        ["nothing"] * len(texts), [json.dumps({"text": text}).encode() for text in texts], [0] * len(texts)
    )
    await connection.close()


async def drain(url: str) -> list[float]:
    """Do nothing with every job; answer with the moments at which it was done."""
    manager = QueueManager(Queries(AsyncpgDriver(await asyncpg.connect(url))))
    done: list[float] = []

    @manager.entrypoint("nothing")
    async def nothing(job: Job) -> None:
        del job
        done.append(time.time())

    await manager.run(batch_size=BATCH, mode=QueueExecutionMode.drain)
    return done


if __name__ == "__main__":
    if sys.argv[2] == "fill":
        asyncio.run(fill(sys.argv[1], json.loads(Path(sys.argv[3]).read_text())))
    else:
        print(json.dumps(asyncio.run(drain(sys.argv[1]))))
