"""Handing outcomes to the store, and getting the next leases."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta

from embedq.errors import StoreError, StoreUnusable
from embedq.model import (
    Ask,
    Done,
    Failed,
    Leased,
    Outcome,
    Released,
    Retry,
    RetryPolicy,
    Settled,
    Skipped,
    SpaceId,
    WorkerId,
)
from embedq.policy.attempts import delay
from embedq.policy.health import Tally
from embedq.telemetry import Event, Trouble
from embedq.worker.held import Held
from embedq.worker.kit import Kit

PATIENCE = RetryPolicy(base=timedelta(milliseconds=200), cap=timedelta(seconds=5), max_attempts=80)  # about six minutes
SHOWN = 20  # jobs named in one event


class Settler:
    """One worker's dealings with the store: what is held, what was settled."""

    def __init__(self, kit: Kit, worker: WorkerId, name: Callable[[SpaceId], str]) -> None:
        """Act for this worker; `name` says how a space is called."""
        self._kit = kit
        self._name = name
        self._worker = worker
        self._trouble = Trouble(kit.telemetry, Event.STORE_TROUBLE, act="settle", workerId=worker)
        self.held = Held()
        self.tally = Tally()

    async def lease(self, ask: Ask) -> Leased:
        """Lease a batch and hold it."""
        leased = await self._kit.store.lease(ask)
        self._hold(leased)
        return leased

    async def settle(self, outcomes: Sequence[Outcome], *, then: Ask | None = None) -> Leased:
        """Settle outcomes and lease the next batch. What was paid for is not given up at the first trouble."""
        if not outcomes:
            return await self.lease(then) if then is not None else Leased()
        leases = [outcome.lease for outcome in outcomes]
        self.held.settling(leases)
        try:
            settled = await self._insist(outcomes, then)
        finally:
            self.held.drop(leases)
        self._hold(settled.next)
        self._tell(outcomes, settled)
        return settled.next

    async def _insist(self, outcomes: Sequence[Outcome], then: Ask | None) -> Settled:
        tries = 0
        while True:
            try:
                settled = await self._kit.store.settle(outcomes, then=then)
            except StoreUnusable:
                raise
            except StoreError as error:
                tries += 1
                self._trouble.met(str(error), jobs=len(outcomes), tries=tries)
                if tries >= PATIENCE.max_attempts or self._kit.stopping.is_set():
                    raise
            else:
                self._trouble.over()
                return settled
            await self._kit.nap(delay(PATIENCE, tries - 1, self._kit.timing.chance()))

    def _hold(self, leased: Leased) -> None:
        if leased.leases:
            self.held.add(leased.leases)
            self._kit.telemetry.emit(Event.LEASED, level="debug", workerId=self._worker, count=len(leased.leases))

    def _tell(self, outcomes: Sequence[Outcome], settled: Settled) -> None:
        counts: Counter[type[Outcome]] = Counter(map(type, outcomes))
        lost = self._lost(outcomes, settled) if len(settled.jobs) < len(outcomes) else []
        self.tally = replace(
            self.tally,
            succeeded=self.tally.succeeded + counts[Done],
            failed=self.tally.failed + counts[Retry] + counts[Failed],
        )
        self._kit.telemetry.emit(
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
            self._kit.telemetry.emit(
                Event.LEASE_LOST,
                level="warning",
                workerId=self._worker,
                at="settle",
                count=len(lost),
                jobs=lost[:SHOWN],
            )
        return lost
