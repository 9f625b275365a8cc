"""The worker's side: lease, then read the text; store, then settle."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from embedq.embedding import ONE_REQUEST, Spending
from embedq.errors import StoreError
from embedq.model import (
    Ask,
    Budget,
    ContentHash,
    Failed,
    JobId,
    Lease,
    Leased,
    Outcome,
    Released,
    Settled,
    SpaceId,
    Vector,
)
from embedq.policy.jobs import RecordAnswer
from embedq.stores.pair.halves import Halves, by_collection

NO_HASH = ContentHash(b"")


class PairWorking(Halves):
    """Leases from one database with the texts of another."""

    async def lease(self, ask: Ask, *, now: datetime | None = None) -> Leased:
        """See `ports.Leasing`. If the corpus does not answer, the leases are released uncharged."""
        leased = await self._queue.lease(ask, now=now)
        try:
            return await self._with_texts(leased)
        except StoreError:
            await self._release(leased, now)
            raise

    async def settle(
        self, outcomes: Sequence[Outcome], *, then: Ask | None = None, last: bool = False, now: datetime | None = None
    ) -> Settled:
        """See `ports.Leasing`. The vectors are in the corpus before the queue is settled."""
        ready, answers, held = _without_held(
            outcomes, await self._corpus.store(outcomes, now=now) if outcomes else [], last=last
        )
        settled = await self._queue.settle(ready, answers, then=then, last=last, now=now)
        settled = replace(settled, busy=settled.busy | held)
        lost = [outcome.lease for outcome in outcomes if _may_be_lost(outcome) and outcome.lease.job_id in settled.jobs]
        with suppress(StoreError):  # the next batch is leased already; what is not noted now, the reconciler notes
            for collection, records in by_collection([(lease.collection, lease.record_id) for lease in lost]).items():
                await self._note_losses(collection, records)
        try:
            return replace(settled, next=await self._with_texts(settled.next))
        except StoreError:
            with suppress(StoreError):
                await self._release(settled.next, now)
            return replace(settled, next=Leased())  # the next lease reports the error

    async def renew(self, leases: Sequence[Lease], *, span: timedelta, now: datetime | None = None) -> set[JobId]:
        """See `ports.Leasing`."""
        return await self._queue.renew(leases, span=span, now=now)

    async def known(self, space: SpaceId, hashes: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
        """See `ports.Leasing`."""
        return await self._corpus.known(space, hashes)

    async def wait_for_work(self, timeout: timedelta) -> None:  # noqa: ASYNC109 a bound, not a cancellation
        """See `ports.Leasing`."""
        await self._queue.wait_for_work(timeout)

    async def take(
        self, space: SpaceId, budget: Budget | None, spending: Spending = ONE_REQUEST, *, now: datetime | None = None
    ) -> timedelta:
        """See `ports.Budgeting`."""
        return await self._queue.take(space, budget, spending, now=now)

    async def hold(self, space: SpaceId, span: timedelta, *, now: datetime | None = None) -> None:
        """See `ports.Budgeting`."""
        await self._queue.hold(space, span, now=now)

    async def budgets(self, *, now: datetime | None = None) -> Mapping[SpaceId, Mapping[str, Any]]:
        """See `ports.Budgeting`."""
        return await self._queue.budgets(now=now)

    async def _with_texts(self, leased: Leased) -> Leased:
        """Read the texts of what was leased; a record that is gone, or now in another space, has none."""
        if not leased.leases:
            return leased
        wanted = by_collection([(lease.collection, lease.record_id) for lease in leased.leases])
        texts = await self._corpus.texts(leased.leases[0].space, wanted)
        filled = []
        for lease in leased.leases:
            found = texts.get(lease.collection, {}).get(lease.record_id)
            if found is None:
                filled.append(lease._replace(text=None, hash=NO_HASH, current=False))
            else:
                filled.append(
                    lease._replace(text=found.text, hash=found.hash, current=found.current, erasure=found.erasure)
                )
        return replace(leased, leases=filled)

    async def _release(self, leased: Leased, now: datetime | None) -> None:
        """Release what will not be worked on; if that fails, the lease expires by itself."""
        if leased.leases:
            fits = [RecordAnswer.FITS] * len(leased.leases)
            await self._queue.settle([Released(lease) for lease in leased.leases], fits, last=True, now=now)


def _without_held(
    outcomes: Sequence[Outcome], answers: Sequence[RecordAnswer | None], *, last: bool
) -> tuple[list[Outcome], list[RecordAnswer], frozenset[JobId]]:
    """Return what to settle in the queue now, and whose records are locked: those are released if not waited for."""
    pairs = [(outcome, answer) for outcome, answer in zip(outcomes, answers, strict=True) if answer is not None]
    held = [outcome for outcome, answer in zip(outcomes, answers, strict=True) if answer is None]
    if last:
        pairs += [(Released(outcome.lease), RecordAnswer.FITS) for outcome in held]
        held = []
    busy = frozenset(outcome.lease.job_id for outcome in held)
    return [outcome for outcome, _ in pairs], [answer for _, answer in pairs], busy


def _may_be_lost(outcome: Outcome) -> bool:
    """Say whether an outcome may have made its job a dead letter."""
    return isinstance(outcome, Failed) or (isinstance(outcome, Released) and outcome.refused is not None)
