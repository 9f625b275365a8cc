"""Our queue beside others on PostgreSQL, in turns, one process against one and two against two.

The peers' jobs carry the same texts and do nothing; each has its best batching, which stands in the script that drains
it: up to 2,000 jobs are fetched at once. Ours is what `postgres.queue_alone` measures: it joins current texts, is
fenced by tokens and keeps history. It leases 100 at a time, its default, and 500, which suits empty jobs better.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from embedq.testing.postgres import PostgresServer
from figure import Act, Figure, Scale, beside, taking_turns
from peers.queues import PEERS, Peer, drain
from postgres.ground import database, server
from postgres.hands import Hands, hands
from postgres.queue_alone import Queue, drainer, filled

BATCHES = (100, 500)


async def measure(scale: Scale) -> list[Figure]:
    """Measure jobs per second."""
    jobs, rounds = scale.pick(40_000, 10_000), scale.pick(5, 2)
    figures = []
    with server() as running:
        for processes in (1, 2):
            async with _ours(running, jobs, processes) as acts:
                peers = [partial(drain, running, peer, _jobs(scale, peer), processes) for peer in PEERS]
                found = await taking_turns(rounds, *acts, *peers)
            ours, theirs = found[: len(BATCHES)], found[len(BATCHES) :]
            figures += [
                _figure(peer, batch, _count(processes), values, references)
                for batch, values in zip(BATCHES, ours, strict=True)
                for peer, references in zip(PEERS, theirs, strict=True)
            ]
    return figures


def _jobs(scale: Scale, peer: Peer) -> int:
    return scale.pick(peer.jobs, peer.jobs // 4)


def _count(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"


def _figure(peer: Peer, batch: int, crew: str, values: Sequence[float], references: Sequence[float]) -> Figure:
    name = f"PostgreSQL, queue alone, {batch} at a time, {crew}"
    return beside(name, values, references, "jobs/s", what=peer.name, at_least=peer.at_least)


@asynccontextmanager
async def _ours(running: PostgresServer, jobs: int, processes: int) -> AsyncIterator[list[Act]]:
    with database(running, "ours") as url:
        async with AsyncExitStack() as stack:
            queue = await stack.enter_async_context(filled(url, jobs))
            crews = [
                await stack.enter_async_context(hands(processes, partial(drainer, batch=batch), url))
                for batch in BATCHES
            ]
            yield [_act(queue, crew, jobs) for crew in crews]


def _act(queue: Queue, crew: Hands, jobs: int) -> Act:
    async def act() -> float:
        await queue.fill("ours")
        return await crew.drain(jobs)

    return act
