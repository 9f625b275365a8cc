"""A process that posts records over HTTP at a steady pace and tells how long each took.

It is told `SECONDS RATE FIRST` per line, and answers each with a JSON list of milliseconds. Posts start on time whether
or not the ones before have been answered.
"""

import asyncio
import json
import sys
import time

import httpx

from texts import text


async def post_all(client: httpx.AsyncClient, url: str, seconds: float, rate: float, first: int) -> list[float]:
    """Post for a while."""
    started, tasks = time.perf_counter(), []
    for number in range(int(seconds * rate)):
        await asyncio.sleep(started + number / rate - time.perf_counter())
        tasks.append(asyncio.create_task(_post(client, url, first + number)))
    return await asyncio.gather(*tasks)


async def _post(client: httpx.AsyncClient, url: str, number: int) -> float:
    started = time.perf_counter()
    answer = await client.post(url, json={"id": f"post-{number}", "text": text(number, salt="post-")})
    spent = (time.perf_counter() - started) * 1000
    assert answer.status_code == httpx.codes.CREATED, answer.text
    return spent


async def main(url: str) -> None:
    """Serve until the input ends."""
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        for line in iter(sys.stdin.readline, ""):
            seconds, rate, first = line.split()
            spans = await post_all(client, url, float(seconds), float(rate), int(first))
            print(json.dumps(spans), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
