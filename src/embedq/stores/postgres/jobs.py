"""The worker's side of the queue: leases, budgets, pause, the registry."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from embedq.embedding import ONE_REQUEST, Spending
from embedq.errors import StoreError
from embedq.model import (
    Ask,
    Budget,
    HealthReport,
    JobId,
    Lease,
    Leased,
    Outcome,
    Settled,
    SpaceId,
    Worker,
    WorkerId,
    WorkerInfo,
)
from embedq.stores.postgres import budgets, leasing, rescuing, settling, transitions, workers
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.keys import key_of
from embedq.telemetry import Event

LEASE = "SELECT * FROM embedq.lease($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
COMPLETE_AND_LEASE = """
SELECT t.stored, t.seconds, (t.n).*
FROM embedq.complete_and_lease($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) t
"""
NO_ASK = (None,) * 10
RENEW = "SELECT nonce, jobs FROM embedq.renew($1, $2, $3, $4)"
FOLD_EVERY = 100  # batches
MOST_GIVEN = 1024  # batches are remembered

PAUSE = "UPDATE embedq.control SET paused = true"

# Wait for running lease calls, which may not have seen the pause; new ones lease nothing.
OUTWAIT_LEASES = "SELECT pg_advisory_xact_lock(1701667448, 0)"
RESUME = """
WITH lifted AS (UPDATE embedq.space SET held_until = '-infinity' WHERE held_until > '-infinity')
UPDATE embedq.control SET paused = false, resumes = resumes + 1
"""
PAUSED = "SELECT paused FROM embedq.control"
RESUMES = "SELECT resumes + first_token FROM embedq.control"  # a recreated schema counts as a resume

BUSY_PAUSES = (0.02, 0.05, 0.1, 0.2)  # seconds between retries of jobs that another transaction holds


Ended = tuple[frozenset[JobId], frozenset[JobId]]  # jobs that were still ours, and held ones
Settle = Callable[[Sequence[Outcome]], Awaitable[Ended]]


class PostgresQueue:
    """Leases in one PostgreSQL database."""

    def __init__(self, database: Database) -> None:
        """Use an open database."""
        self._database = database
        self._turns = leasing.Turns()
        self._settles = 0
        self._given: OrderedDict[int, Sequence[Lease]] = OrderedDict()
        self._unanswered: set[int] = set()  # nonces of leases whose answers were lost

    async def lease(self, ask: Ask, *, now: datetime | None = None) -> Leased:
        """See `ports.Leasing`."""
        signals = self._database.wake.signals
        asked = leasing.arguments(ask, self._turns)
        async with self._or_handed_back(asked[-1]):
            return await self._leased(ask, asked[-1], await self._call(LEASE, *asked, now), signals)

    async def renew(self, leases: Sequence[Lease], *, span: timedelta, now: datetime | None = None) -> set[JobId]:
        """See `ports.Leasing`."""
        known = {lease.nonce: lease.token for lease in leases}
        rows = await self._database.fetch(RENEW, list(known.values()), list(known), span, now)
        held = {row["nonce"]: set(row["jobs"]) for row in rows}
        return {lease.job_id for lease in leases if key_of(lease.job_id) in held.get(lease.nonce, ())}

    async def take(
        self, space: SpaceId, budget: Budget | None, spending: Spending = ONE_REQUEST, *, now: datetime | None = None
    ) -> timedelta:
        """See `ports.Budgeting`."""
        return await budgets.take(self._database, space, budget, spending, now)

    async def hold(self, space: SpaceId, span: timedelta, *, now: datetime | None = None) -> None:
        """See `ports.Budgeting`."""
        await self._database.fetch(budgets.HOLD, now, space, span)

    async def budgets(self, *, now: datetime | None = None) -> Mapping[SpaceId, Mapping[str, Any]]:
        """See `ports.Budgeting`."""
        return await budgets.states(self._database, now)

    async def pause(self) -> None:
        """See `ports.Pausing`."""
        await self._database.fetch(PAUSE)
        await self._database.fetch(OUTWAIT_LEASES)

    async def resume(self) -> None:
        """See `ports.Pausing`."""
        await self._database.call(RESUME)
        self._database.woke()

    async def paused(self) -> bool:
        """See `ports.Pausing`."""
        return bool((await self._database.fetchrow(PAUSED))[0])

    async def resumes(self) -> int:
        """See `ports.Pausing`."""
        return int((await self._database.fetchrow(RESUMES))[0])

    async def register(self, worker: WorkerInfo, *, now: datetime | None = None) -> None:
        """See `ports.Fleet`."""
        await workers.register(self._database, worker, now)

    async def beat(self, worker: WorkerId, report: HealthReport, *, now: datetime | None = None) -> bool:
        """See `ports.Fleet`."""
        return await workers.beat(self._database, worker, report, now)

    async def leave(self, worker: WorkerId) -> None:
        """See `ports.Fleet`."""
        await self._database.fetch(workers.LEAVE, worker)

    async def workers(self, *, heartbeat: timedelta, now: datetime | None = None) -> Sequence[Worker]:
        """See `ports.Fleet`."""
        return await workers.listing(self._database, heartbeat, now)

    async def _call(self, statement: str, *values: object) -> Any:  # noqa: ANN401 a row
        """Call a function that leases, once: a second call would lease more."""
        return await self._database.run(lambda db: db.fetchrow(statement, *values), repeat=False, only_calls=True)

    @asynccontextmanager
    async def _or_handed_back(self, nonce: int) -> AsyncIterator[None]:
        """If the answer is lost, hand back what may have been leased under this nonce as soon as possible."""
        if self._unanswered:
            await self._hand_back()
        try:
            yield
        except StoreError:
            self._unanswered.add(nonce)
            await self._hand_back()
            raise

    async def _hand_back(self) -> None:
        """Hand back leases whose answers were lost: no worker has them."""
        for nonce in list(self._unanswered):
            try:
                handed_back, holds_on = await rescuing.hand_back(self._database, nonce)
            except StoreError:
                return  # not reachable yet: tried again before the next lease, and the lease expires by itself
            if not holds_on:
                self._unanswered.discard(nonce)
            if handed_back:
                self._database.woke()

    async def _leased(self, ask: Ask, nonce: int, row: Any, signals: int) -> Leased:  # noqa: ANN401 a row
        self._turns.note(ask.spaces, row)
        if row["taken"] is None:
            self._database.wake.found_nothing(signals)
        elif not self._database.catalogue.knows(row["epoch"], set(row["collections"])):
            await self._database.run(self._database.catalogue.read, repeat=True)
        answer = leasing.leased(ask, row, nonce, self._database.catalogue)
        if answer.leases:
            self._remember(answer.leases)
        return answer

    def _remember(self, leases: Sequence[Lease]) -> None:
        """Remember a batch: if all of it is done, it is settled in one call."""
        self._given[leases[0].nonce] = leases
        if len(self._given) > MOST_GIVEN:
            self._given.popitem(last=False)

    async def _settle_and_lease(
        self, settle: Settle, outcomes: Sequence[Outcome], then: Ask | None, now: datetime | None
    ) -> Settled:
        """Settle, lease the next batch, and retry jobs that another transaction held."""
        settled = await settle(outcomes)
        following = await self.lease(then, now=now) if then else Leased()
        return replace(await self._come_back(settle, outcomes, settled), next=following)

    async def _come_back(self, settle: Settle, outcomes: Sequence[Outcome], settled: Ended) -> Settled:
        """Retry jobs that another transaction held; those that it holds for longer stay busy."""
        jobs, busy = settled
        for pause in BUSY_PAUSES:
            if not busy:
                break
            await asyncio.sleep(pause)
            try:
                more, busy = await settle([outcome for outcome in outcomes if outcome.lease.job_id in busy])
            except StoreError:  # the next batch is leased already: it must reach the worker, which retries the others
                break
            jobs |= more
        return Settled(jobs=jobs, busy=busy)


class PostgresWork(PostgresQueue):
    """Settling of jobs whose records are in the same database."""

    async def settle(
        self, outcomes: Sequence[Outcome], *, then: Ask | None = None, last: bool = False, now: datetime | None = None
    ) -> Settled:
        """See `ports.Leasing`."""
        if not outcomes:
            return Settled(jobs=frozenset(), next=await self.lease(then, now=now) if then else Leased())
        batch = settling.whole(outcomes, self._given.pop(outcomes[0].lease.nonce, ()))
        whole = None if batch is None else await self._complete(outcomes, batch, then, now)
        if whole is not None:
            return whole

        async def settle(some: Sequence[Outcome]) -> Ended:
            return await transitions.settle(self._database, some, now, last=last)

        return await self._settle_and_lease(settle, outcomes, then, now)

    async def _complete(
        self, outcomes: Sequence[Outcome], batch: Sequence[Any], then: Ask | None, now: datetime | None
    ) -> Settled | None:
        """Complete a whole batch and lease the next in one call; None if the batch has changed."""
        signals = self._database.wake.signals
        self._settles += 1
        fold = self._settles % FOLD_EVERY == 0
        jobs = frozenset([outcome.lease.job_id for outcome in outcomes])
        if then is None:  # it may be called twice, so a lost connection is no reason to give up
            row = await self._database.fetchrow(COMPLETE_AND_LEASE, *batch, *NO_ASK, fold, now)
            return Settled(jobs=jobs) if self._is_completed(row) else None
        asked = leasing.arguments(then, self._turns)
        async with self._or_handed_back(asked[-1]):
            row = await self._call(COMPLETE_AND_LEASE, *batch, *asked, fold, now)
            if not self._is_completed(row):
                return None
            return Settled(jobs=jobs, next=await self._leased(then, asked[-1], row, signals))

    def _is_completed(self, row: Any) -> bool:  # noqa: ANN401 a row
        """Say whether a batch was completed, and report what was stored."""
        if row["stored"]:
            self._database.telemetry.emit(Event.STORED, level="debug", count=row["stored"], seconds=row["seconds"])
        return row["stored"] is not None
