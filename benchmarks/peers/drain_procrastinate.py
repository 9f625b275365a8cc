"""Run by the peers' own Python: `drain_procrastinate.py URL fill TEXTS` or `drain_procrastinate.py URL drain`.

Settings: its psycopg connector with a pool, many jobs at the same time. It fetches job by job: there is no batching.
"""

import asyncio
import json
import sys
import time
from pathlib import Path

from procrastinate import App, PsycopgConnector

CONCURRENCY = 20

app = App(connector=PsycopgConnector(conninfo=sys.argv[1], min_size=CONCURRENCY, max_size=CONCURRENCY))
done: list[float] = []


@app.task(name="nothing")
async def nothing(text: str) -> None:
    """Note the moment."""
    del text
    done.append(time.time())


async def fill(texts: list[str]) -> None:
    """Install the queue and put a job for each text into it."""
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await nothing.batch_defer_async(*({"text": text} for text in texts))


async def drain() -> list[float]:
    """Do nothing with every job; answer with the moments at which it was done."""
    async with app.open_async():
        await app.run_worker_async(wait=False, concurrency=CONCURRENCY, install_signal_handlers=False)
    return done


if __name__ == "__main__":
    if sys.argv[2] == "fill":
        asyncio.run(fill(json.loads(Path(sys.argv[3]).read_text())))
    else:
        print(json.dumps(asyncio.run(drain())))
