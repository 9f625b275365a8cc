"""One worker's loop: while one batch is with the embedder, the next is leased and the previous settled."""

import asyncio
from collections.abc import Coroutine, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from embedq.errors import StoreError, StoreUnusable
from embedq.model import Ask, HealthReport, Lease, Leased, Outcome, Released, RetryPolicy, SpaceId, WorkerInfo
from embedq.policy.attempts import delay
from embedq.policy.jobs import SOLO_CRASHES
from embedq.telemetry import Event, Trouble
from embedq.worker.batch import Batch
from embedq.worker.context import WorkerContext, first_of
from embedq.worker.embedders import Embedders
from embedq.worker.held_leases import HeldLeases
from embedq.worker.settling import Settler

T = TypeVar("T")

SOLO_LEASE_EVERY = 16  # batches: then one is leased without prefetching, as a job that crashed workers must be
SLOW_SECONDS = 0.1  # after a batch that took longer, checking for a pause costs little
TROUBLE = RetryPolicy(cap=timedelta(seconds=5))  # short, so that work resumes soon after the store recovers


class Runner:
    """A worker. It holds at most the batch with the embedder, and one prefetched batch."""

    def __init__(self, context: WorkerContext, embedders: Embedders, info: WorkerInfo) -> None:
        """Work under this name with these embedders."""
        self._context = context
        self._embedders = embedders
        self.info = info
        self._settler = Settler(context, info.id, embedders.name)
        self._batch: Batch | None = None
        self._ahead: asyncio.Task[Batch | None] | None = None  # leases the next batch
        self._pending: set[asyncio.Task[object]] = set()  # store calls that must not be cancelled
        self._troubles = 0
        self._trouble = Trouble(context.telemetry, Event.STORE_TROUBLE, act="work", workerId=info.id)
        self._batches = 0

    @property
    def held(self) -> HeldLeases:
        """The leases it holds."""
        return self._settler.held

    @property
    def has_worked(self) -> bool:
        """Say whether it has settled any job."""
        return self._settler.tally.succeeded > 0

    def report(self) -> HealthReport:
        """Return this worker's health report."""
        return self._context.health.report(self._settler.tally)

    async def run(self) -> None:
        """Work until the pool stops. In any case all leases are settled or released at the end."""
        try:
            while not self._context.stopping.is_set():
                await self._run_until_error()
        finally:
            await self._settle_and_release()

    async def _run_until_error(self) -> None:
        """Work until a store error, then settle or release all leases and back off."""
        batch: Batch | None = None
        try:
            while not self._context.stopping.is_set():
                batch = await self._work(batch) if batch else await self._find_work()
                self._troubles = 0
                self._trouble.over()
        except StoreUnusable:
            raise
        except StoreError as error:
            self._trouble.met(str(error))
            await self._settle_and_release()
            await self._context.sleep(delay(TROUBLE, self._troubles, self._context.timing.chance()))
            self._troubles += 1

    async def _find_work(self) -> Batch | None:
        """Poll for work, one idle worker at a time: after a find the next one polls, so only one waits on the store."""
        async with self._context.polling:
            return None if self._context.stopping.is_set() else await self._poll()

    async def _poll(self) -> Batch | None:
        self._embedders.changed.clear()
        if self._embedders.is_stale() and not self._embedders.is_empty:
            await self._embedders.refresh()
        ask = self._ask(prefetch=False)
        if ask is None and self._embedders.is_empty:
            ask = self._ask_for(())  # it leases nothing, but makes the store wake us at the first put
        leased = await self._do(self._settler.lease(ask)) if ask is not None else Leased()
        if not leased.leases and not await self._embedders.refresh():
            await self._idle(leased, can_ask=ask is not None)
        return self._batch_of(leased.leases)

    async def _idle(self, leased: Leased, *, can_ask: bool) -> None:
        poll = self._context.options.poll_interval
        timeout = min(leased.again_after, poll) if leased.again_after is not None else poll
        queue = self._context.store.wait_for_work(timeout) if can_ask else asyncio.sleep(timeout.total_seconds())
        await first_of(queue, self._embedders.changed.wait(), self._context.stopping.wait())

    async def _work(self, batch: Batch) -> Batch | None:
        """Process one batch from leases to settle; return the next."""
        self._batches += 1
        self._batch = batch
        self._prefetch(batch.leases)
        started = self._context.timing.monotonic()
        await batch.run()
        is_slow = self._context.timing.monotonic() - started > SLOW_SECONDS
        ahead = await self._prefetched()
        unstarted = ahead if ahead and await self._must_return(ahead, batch, is_slow=is_slow) else None
        kept = None if unstarted else ahead
        self._settle_in_background(batch, unstarted.leases if unstarted else (), prefetch=kept is not None)
        if self._embedders.is_stale():
            await self._embedders.refresh()
        return kept or await self._prefetched()

    def _prefetch(self, leases: Sequence[Lease]) -> None:
        """Prefetch the next batch, unless this one has emptied the queue or may crash the worker."""
        full = len(leases) >= self._context.options.batch_size and leases[0].crashes < SOLO_CRASHES
        ask = self._ask(prefetch=True)
        if self._ahead is None and full and ask is not None:
            self._ahead = self._start(self._next(self._settler.lease(ask)))

    async def _must_return(self, ahead: Batch, batch: Batch, *, is_slow: bool) -> bool:
        """Say whether a prefetched batch must be released at once."""
        space = ahead.state.space.id
        if self._context.stopping.is_set() or space not in self._embedders.open():
            return True
        if batch.interrupted and space == batch.state.space.id:
            return True
        return is_slow and await self._context.store.paused()

    def _settle_in_background(self, batch: Batch, unstarted: Sequence[Lease], *, prefetch: bool) -> None:
        """Settle a batch, and release unstarted leases, while the next one is with the embedder."""
        outcomes = [*batch.outcomes, *map(Released, unstarted)]
        waits = self._context.stopping.is_set() or (prefetch and self._batches % SOLO_LEASE_EVERY == 0)
        ask = None if waits else self._ask(prefetch=prefetch)
        self._ahead = self._start(self._next(self._settle(batch, outcomes, ask)))
        self._batch = None

    async def _next(self, leasing: Coroutine[object, object, Leased]) -> Batch | None:
        return self._batch_of((await leasing).leases)

    def _batch_of(self, leases: Sequence[Lease]) -> Batch | None:
        """Make a batch of leases, and start looking up known vectors of their texts."""
        if not leases:
            return None
        batch = Batch(self._context, self._embedders, leases, worker=self.info.id, flush=self._flush)
        self._keep(batch.look_up())
        return batch

    async def _settle(self, batch: Batch, outcomes: Sequence[Outcome], ask: Ask | None) -> Leased:
        try:
            return await self._settler.settle(outcomes, then=ask)
        finally:
            batch.release()

    async def _flush(self, outcomes: Sequence[Outcome]) -> None:
        """Before a batch waits: settle what it has done, and release the prefetched leases."""
        ahead = await self._prefetched()
        await self._do(self._settler.settle([*outcomes, *map(Released, ahead.leases if ahead else ())]))

    async def _settle_and_release(self) -> None:
        """Settle what is done and release the rest."""
        await asyncio.gather(*self._pending, *([self._ahead] if self._ahead else []), return_exceptions=True)
        self._ahead, batch, self._batch = None, self._batch, None
        outcomes = list(batch.outcomes) if batch is not None else []
        done = {outcome.lease.job_id for outcome in outcomes}
        outcomes += [Released(lease) for lease in self.held.all() if lease.job_id not in done]
        try:
            await self._settler.settle_all(outcomes)
        except StoreError as error:
            self._context.telemetry.emit(
                Event.STORE_TROUBLE, level="error", act="release", error=str(error), workerId=self.info.id
            )
        finally:
            self.held.clear()  # no worker processes them: they must not be renewed
            if batch is not None:
                batch.release()

    async def _prefetched(self) -> Batch | None:
        """Wait for the prefetched batch."""
        if self._ahead is None:
            return None
        batch = await asyncio.shield(self._ahead)
        self._ahead = None
        return batch

    async def _do(self, act: Coroutine[object, object, Leased]) -> Leased:
        return await asyncio.shield(self._start(act))

    def _start(self, act: Coroutine[object, object, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(act)
        self._keep(task)
        return task

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    def _ask(self, *, prefetch: bool) -> Ask | None:
        spaces = self._embedders.open()
        return self._ask_for(spaces, prefetch=prefetch) if spaces else None

    def _ask_for(self, spaces: Sequence[SpaceId], *, prefetch: bool = False) -> Ask:
        options = self._context.options
        return Ask(
            worker=self.info.id,
            spaces=spaces,
            limit=options.batch_size,
            span=options.lease,
            prefetch=prefetch,
        )
