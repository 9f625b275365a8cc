"""The worker's part of the queue: leases, budgets, pause, the registry."""

from collections.abc import Callable, Mapping, Sequence
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
    Settled,
    SpaceId,
    Worker,
    WorkerId,
    WorkerInfo,
)
from embedq.stores.sqlite import budgets, leasing, rescuing, workers
from embedq.stores.sqlite.file import File
from embedq.stores.sqlite.given_leases import GivenLeases
from embedq.stores.sqlite.moments import clock, stamp
from embedq.stores.sqlite.transaction import Transaction

PAUSE = "UPDATE embedq_control SET value = 1 WHERE name = 'paused'"
RESUME = "UPDATE embedq_control SET value = 0 WHERE name = 'paused'"
COUNT_RESUME = "UPDATE embedq_control SET value = value + 1 WHERE name = 'resumes'"
LIFT_HOLDS = "UPDATE embedq_space SET held_until = 0 WHERE held_until <> 0"
CONTROL = "SELECT value FROM embedq_control WHERE name = ?"


Settle = Callable[[Transaction, int], frozenset[JobId]]  # settles at a moment; says which jobs were still ours


class SqliteQueue:
    """Leases in one SQLite file."""

    def __init__(self, file: File) -> None:
        """Use an open file."""
        self._file = file
        self._turns = leasing.Turns()
        self._given = GivenLeases()

    async def lease(self, ask: Ask, *, now: datetime | None = None) -> Leased:
        """See `ports.Leasing`."""
        settled = await self._settle_and_lease(lambda _tx, _moment: frozenset(), ask, now)
        return settled.next

    async def _settle_and_lease(self, settle: Settle, then: Ask | None, now: datetime | None) -> Settled:
        """Settle and lease in one transaction, or in two if a put waits: it goes in between.

        Writers are serialised here, so no job is ever busy.
        """
        signals = self._file.wake.signals

        def take(tx: Transaction) -> leasing.Batch | timedelta | None:
            return None if then is None else leasing.take(tx, then, self._turns, stamp(now, tx.now))

        def work(tx: Transaction) -> tuple[frozenset[JobId], leasing.Batch | timedelta | None, bool]:
            jobs = settle(tx, stamp(now, tx.now))
            put_off = bool(jobs) and then is not None and tx.is_awaited()
            return jobs, None if put_off else take(tx), put_off

        jobs, batch, put_off = await self._file.write(work, bulk=True)
        if put_off:
            try:
                batch = await self._file.write(take, bulk=True)
            except StoreError:  # what is settled is told all the same; whoever leases next meets the error
                return Settled(jobs=jobs)
        following = leasing.unpack(batch, self._given)
        if then is not None and not then.prefetch and not following.leases:
            self._file.wake.found_nothing(signals)
        return Settled(jobs=jobs, next=following)

    async def renew(self, leases: Sequence[Lease], *, span: timedelta, now: datetime | None = None) -> set[JobId]:
        """See `ports.Leasing`."""
        return await self._file.write(lambda tx: rescuing.renew(tx, leases, span, stamp(now, tx.now)))

    async def wait_for_work(self, timeout: timedelta) -> None:  # noqa: ASYNC109 a bound, not a cancellation
        """See `ports.Leasing`."""
        await self._file.wake.wait(timeout.total_seconds())

    async def take(
        self, space: SpaceId, budget: Budget | None, spending: Spending = ONE_REQUEST, *, now: datetime | None = None
    ) -> timedelta:
        """See `ports.Budgeting`."""
        return await self._file.write(lambda tx: budgets.take(tx, space, budget, spending, stamp(now, tx.now)))

    async def hold(self, space: SpaceId, span: timedelta, *, now: datetime | None = None) -> None:
        """See `ports.Budgeting`."""
        await self._file.write(lambda tx: budgets.hold(tx, space, span, stamp(now, tx.now)))

    async def budgets(self, *, now: datetime | None = None) -> Mapping[SpaceId, Mapping[str, Any]]:
        """See `ports.Budgeting`."""
        return await self._file.read(lambda db: budgets.states(db, stamp(now, clock())))

    async def pause(self) -> None:
        """See `ports.Pausing`."""
        await self._file.write(lambda tx: tx.db.execute(PAUSE).rowcount)

    async def resume(self) -> None:
        """See `ports.Pausing`."""

        def work(tx: Transaction) -> None:
            for statement in (RESUME, COUNT_RESUME, LIFT_HOLDS):
                tx.db.execute(statement)
            tx.wakes = True

        await self._file.write(work)

    async def paused(self) -> bool:
        """See `ports.Pausing`."""
        return bool(await self._control("paused"))

    async def resumes(self) -> int:
        """See `ports.Pausing`."""
        return await self._control("resumes")

    async def register(self, worker: WorkerInfo, *, now: datetime | None = None) -> None:
        """See `ports.Fleet`."""
        await self._file.write(lambda tx: workers.register(tx, worker, stamp(now, tx.now)))

    async def beat(self, worker: WorkerId, report: HealthReport, *, now: datetime | None = None) -> bool:
        """See `ports.Fleet`."""
        return await self._file.write(lambda tx: workers.beat(tx, worker, report, stamp(now, tx.now)))

    async def leave(self, worker: WorkerId) -> None:
        """See `ports.Fleet`."""
        await self._file.write(lambda tx: workers.leave(tx, worker))

    async def workers(self, *, heartbeat: timedelta, now: datetime | None = None) -> Sequence[Worker]:
        """See `ports.Fleet`."""
        return await self._file.read(lambda db: workers.listing(db, heartbeat, stamp(now, clock())))

    async def _control(self, name: str) -> int:
        row = await self._file.read(lambda db: db.execute(CONTROL, (name,)).fetchone())
        return int(row[0])
