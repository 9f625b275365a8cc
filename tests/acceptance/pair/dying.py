"""A process that writes and works on a pair of databases, and dies after one step of its choice.

`python -m tests.acceptance.pair.dying URL QUEUE_URL FOLDER STEP` does what applications and workers do, in an order
that is always the same; `STEP` is a half, a method and how often it was called, such as `corpus.put.2`. What it asks
for, what it was told is done, and what it has paid for, goes to files in the folder before the next step.
"""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from embedq.app.openers import Place, opener
from embedq.app.settings import load
from embedq.model import Ask, Done, Failed, JobId, Lease, NewRecord, Outcome, Reason, RecordId, Skipped, WorkerId
from embedq.stores.pair import PairStore
from embedq.telemetry import Telemetry
from embedq.testing.stores.stage import DIMENSIONS, FAULT, NOTES, declaration, vector_of

BAD = "a text that no provider takes"
BATCH = 3
WORKER = WorkerId("dying")
FIRST = {"a": "amber", "b": "birch", "c": BAD, "d": "dune", "e": "elm", "f": "fir"}


class Dying:
    """One half, which ends its process after a call."""

    def __init__(self, half: Any, name: str, step: str, calls: Counter[str]) -> None:  # noqa: ANN401 either half
        """Watch the calls of one half."""
        self._half, self._name, self._step, self._calls = half, name, step, calls

    def __getattr__(self, method: str) -> Any:  # noqa: ANN401 whatever it is
        """Call the half, and die if this was the step."""
        found = getattr(self._half, method)

        async def call(*values: object, **named: object) -> object:
            answer = await found(*values, **named)
            self._calls[method] += 1
            die_after(f"{self._name}.{method}.{self._calls[method]}", self._step)
            return answer

        return call if asyncio.iscoroutinefunction(found) else found


def die_after(done: str, step: str) -> None:
    """End this process as a power cut would, if this was the step."""
    if done == step:
        os.kill(os.getpid(), signal.SIGKILL)


async def open_pair(url: str, queue_url: str, step: str = "") -> PairStore:
    """Open both halves, each watched."""
    settings = load(url=url, queue_url=queue_url)
    place = Place(url=url, variable="EMBEDQ_URL", settings=settings, telemetry=Telemetry())
    assert place.queue is not None
    queue = await opener(place.queue).queue(place.queue)
    corpus = await opener(place).corpus(place)
    halves = (Dying(half, name, step, Counter()) for half, name in ((corpus, "corpus"), (queue, "queue")))
    return await PairStore.join(*halves)  # type: ignore[arg-type]  # they answer to the same calls


def note(folder: Path, name: str, *lines: str) -> None:
    """Write lines to a file, and be sure of them."""
    with (folder / name).open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())


async def write(store: PairStore, folder: Path, texts: dict[str, str]) -> None:
    """Put records, and note what was acknowledged."""
    note(folder, "acknowledged", *(f"{id_} ?" for id_ in texts))
    await store.put(NOTES, [NewRecord(id=RecordId(id_), text=text) for id_, text in texts.items()])
    note(folder, "acknowledged", *(f"{id_} {text}" for id_, text in texts.items()))


async def work(store: PairStore, folder: Path, step: str = "", *, most: int = 1000) -> int:
    """Work as a worker does, batch by batch; answer with how many jobs there were."""
    worked = 0
    for _ in range(most):
        spaces = [space.id for space in await store.spaces()]
        leased = await store.lease(Ask(worker=WORKER, spaces=spaces, limit=BATCH, span=timedelta(minutes=5)))
        if not leased.leases:
            break
        outcomes = await attempt(store, leased.leases, folder)
        die_after("paid", step)
        await store.settle(outcomes)
        worked += len(outcomes)
    return worked


async def attempt(store: PairStore, leases: Sequence[Lease], folder: Path) -> list[Outcome]:
    """Embed what is not known already, and note what was paid for."""
    known = await store.known(leases[0].space, [lease.hash for lease in leases])
    outcomes: list[Outcome] = []
    for lease in leases:
        if lease.text is None:
            outcomes.append(Skipped(lease))
        elif lease.current and not lease.forced:
            outcomes.append(Done(lease))
        elif lease.text == BAD:
            outcomes.append(Failed(lease, FAULT, Reason.PERMANENT_ERROR))
        elif lease.hash in known:
            outcomes.append(Done(lease, known[lease.hash]))
        else:
            note(folder, "paid", lease.text)
            outcomes.append(Done(lease, vector_of(lease.text)))
    return outcomes


async def live(url: str, queue_url: str, folder: Path, step: str) -> None:
    """Do a bit of everything."""
    store = await open_pair(url, queue_url, step)
    collection = await store.declare(declaration())
    await store.learn(collection.space.id, DIMENSIONS)
    await write(store, folder, FIRST)
    await work(store, folder, step, most=1)
    await write(store, folder, {"a": "apple", "g": "gold"})
    note(folder, "acknowledged", "b ?")
    await store.delete(NOTES, [RecordId("b")])
    note(folder, "acknowledged", "b -")
    [receipt] = await store.enqueue(NOTES, [RecordId("d")], force=True)
    await store.cancel(receipt.job_id or JobId("none"))
    await work(store, folder, step)
    await store.close()


if __name__ == "__main__":
    asyncio.run(live(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4]))
