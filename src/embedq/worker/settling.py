"""Settles outcomes, and leases the next batch."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from embedq.model import (
    Ask,
    Done,
    Failed,
    JobId,
    Leased,
    Outcome,
    Released,
    Retry,
    Settled,
    Skipped,
    SpaceId,
    WorkerId,
)
from embedq.policy.health import Tally
from embedq.telemetry import Event, Trouble
from embedq.worker.context import WorkerContext
from embedq.worker.held_leases import HeldLeases
from embedq.worker.leftover import Leftover
from embedq.worker.store_retry import with_retry

SHOWN = 20  # jobs named in one event


class Settler:
    """Leases and settles for one worker, and tracks what it holds."""

    def __init__(self, context: WorkerContext, worker: WorkerId, name: Callable[[SpaceId], str]) -> None:
        """Act for this worker; `name` returns a space's name."""
        self._context = context
        self._name = name
        self._worker = worker
        self._trouble = Trouble(context.telemetry, Event.STORE_TROUBLE, act="settle", workerId=worker)
        self.held = HeldLeases()
        self.tally = Tally()
        self._leftover = Leftover(self._settle_again)

    async def lease(self, ask: Ask) -> Leased:
        """Lease a batch and hold it."""
        leased = await self._context.store.lease(ask)
        self._hold(leased)
        return leased

    async def settle(self, outcomes: Sequence[Outcome], *, then: Ask | None = None) -> Leased:
        """Settle outcomes and lease the next batch. Store errors are retried, so that no paid vector is lost."""
        if not outcomes:
            return await self.lease(then) if then is not None else Leased()
        settled = await self._settle_and_drop(outcomes, then, last=False)
        self._leftover.add([outcome for outcome in outcomes if outcome.lease.job_id in settled.busy])
        self._hold(settled.next)
        return settled.next

    async def settle_all(self, outcomes: Sequence[Outcome]) -> None:
        """Settle outcomes and leftovers for the last time: jobs that another transaction holds are not retried."""
        left = await self._leftover.take()
        left_ids = {outcome.lease.job_id for outcome in left}
        every = [*left, *(outcome for outcome in outcomes if outcome.lease.job_id not in left_ids)]
        if every:
            await self._settle_and_drop(every, None, last=True)

    async def _settle_and_drop(self, outcomes: Sequence[Outcome], then: Ask | None, *, last: bool) -> Settled:
        """Settle outcomes; keep the leases of busy jobs, unless this is the last settle."""
        leases = [outcome.lease for outcome in outcomes]
        self.held.settling(leases)
        busy: frozenset[JobId] = frozenset()
        try:
            settled = await with_retry(
                self._context,
                self._trouble,
                lambda: self._context.store.settle(outcomes, then=then, last=last),
                jobs=len(outcomes),
            )
            busy = frozenset() if last else settled.busy
        finally:
            self.held.drop(lease for lease in leases if lease.job_id not in busy)
        self._report([outcome for outcome in outcomes if outcome.lease.job_id not in settled.busy], settled)
        return settled

    async def _settle_again(self, outcomes: Sequence[Outcome]) -> frozenset[JobId]:
        """Settle busy jobs again; return those that are still busy."""
        try:
            settled = await self._context.store.settle(outcomes)
        except Exception as error:  # noqa: BLE001 a service loop: without it these leases would be renewed forever
            self._trouble.met(f"{type(error).__name__}: {error}", jobs=len(outcomes))
            return frozenset(outcome.lease.job_id for outcome in outcomes)
        free = [outcome for outcome in outcomes if outcome.lease.job_id not in settled.busy]
        self.held.drop(outcome.lease for outcome in free)
        self._report(free, settled)
        return settled.busy

    def _hold(self, leased: Leased) -> None:
        if leased.leases:
            self.held.add(leased.leases)
            self._context.telemetry.emit(Event.LEASED, level="debug", workerId=self._worker, count=len(leased.leases))

    def _report(self, outcomes: Sequence[Outcome], settled: Settled) -> None:
        if not outcomes:
            return
        counts: Counter[type[Outcome]] = Counter(map(type, outcomes))
        lost = self._lost(outcomes, settled) if len(settled.jobs) < len(outcomes) else []
        self.tally = replace(
            self.tally,
            succeeded=self.tally.succeeded + counts[Done],
            failed=self.tally.failed + counts[Retry] + counts[Failed],
        )
        self._context.telemetry.emit(
            Event.SETTLED,
            workerId=self._worker,
            space=self._name(outcomes[0].lease.space),
            done=counts[Done],
            retry=counts[Retry],
            failed=counts[Failed],
            released=counts[Released],
            skipped=counts[Skipped],
            lost=len(lost),
        )

    def _lost(self, outcomes: Sequence[Outcome], settled: Settled) -> Sequence[str]:
        lost = [outcome.lease.job_id for outcome in outcomes if outcome.lease.job_id not in settled.jobs]
        if lost:
            self._context.telemetry.emit(
                Event.LEASE_LOST,
                level="warning",
                workerId=self._worker,
                at="settle",
                count=len(lost),
                jobs=lost[:SHOWN],
            )
        return lost
