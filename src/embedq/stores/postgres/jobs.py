"""The worker's side of the queue: leases, budgets, pause, the registry."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from embedq.embedding import ONE_REQUEST, Spending
from embedq.errors import StoreError
from embedq.model import (
    Ask,
    Budget,
    ContentHash,
    HealthReport,
    JobId,
    Lease,
    Leased,
    Outcome,
    Reason,
    Settled,
    SpaceId,
    Vector,
    Worker,
    WorkerId,
    WorkerInfo,
)
from embedq.stores.postgres import budgets, leasing, settling, workers
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.keys import key_of
from embedq.telemetry import Event

LEASE = "SELECT * FROM embedq.lease($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
SETTLE = "SELECT * FROM embedq.settle($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
SETTLE_AND_LEASE = """
SELECT (t.s).jobs AS settled, (t.s).busy, (t.s).buried, (t.s).wakes, (t.s).stored, (t.s).seconds, (t.n).*
FROM embedq.settle_and_lease(
  $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21) t
"""
COMPLETE_AND_LEASE = """
SELECT (t.s).jobs AS settled, (t.s).busy, (t.s).buried, (t.s).wakes, (t.s).stored, (t.s).seconds, (t.n).*
FROM embedq.complete_and_lease($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18) t
"""
RENEW = "SELECT nonce, jobs FROM embedq.renew($1, $2, $3, $4)"
HAND_BACK = "SELECT handed_back, holds_on FROM embedq.hand_back($1)"
KNOWN = "SELECT hash, embedding FROM embedq.known(embedq.space_number($1), $2)"
FOLD_EVERY = 100  # turns
MOST_GIVEN = 1024  # batches that are remembered

PAUSE = "UPDATE embedq.control SET paused = true"

# Wait for leases under way, which may not have seen the pause; those that come now lease nothing.
OUTWAIT_LEASES = "SELECT pg_advisory_xact_lock(1701667448, 0)"
RESUME = """
WITH lifted AS (UPDATE embedq.space SET held_until = '-infinity' WHERE held_until > '-infinity')
UPDATE embedq.control SET paused = false, resumes = resumes + 1
"""
PAUSED = "SELECT paused FROM embedq.control"
RESUMES = "SELECT resumes FROM embedq.control"

BUSY_PAUSES = (0.02, 0.05, 0.1, 0.2)  # seconds: how often a settle comes back for jobs that an application holds


class PostgresQueue:
    """Leases in one PostgreSQL database."""

    def __init__(self, database: Database) -> None:
        """Speak to an opened database."""
        self._database = database
        self._turns = leasing.Turns()
        self._settles = 0
        self._given: OrderedDict[int, Sequence[Lease]] = OrderedDict()
        self._unanswered: set[int] = set()  # nonces of leases that nobody got

    async def lease(self, ask: Ask, *, now: datetime | None = None) -> Leased:
        """See `ports.Leasing`."""
        news = self._database.wake.news
        asked = leasing.arguments(ask, self._turns)
        async with self._or_handed_back(asked[-1]):
            return await self._leased(ask, asked[-1], await self._call(LEASE, *asked, now), news)

    async def settle(
        self, outcomes: Sequence[Outcome], *, then: Ask | None = None, last: bool = False, now: datetime | None = None
    ) -> Settled:
        """See `ports.Leasing`."""
        if not outcomes:
            return Settled(jobs=frozenset(), next=await self.lease(then, now=now) if then else Leased())
        if then is None:
            return await self._come_back(outcomes, await self._settle(outcomes, now, last=last), now, last=last)
        news = self._database.wake.news
        self._settles += 1
        asked = leasing.arguments(then, self._turns)
        async with self._or_handed_back(asked[-1]):
            row = await self._turn(outcomes, asked, now)
            settled = self._settled(outcomes, row, row["settled"])
            following = await self._leased(then, asked[-1], row, news)
            return replace(await self._come_back(outcomes, settled, now, last=last), next=following)

    async def _turn(self, outcomes: Sequence[Outcome], asked: Sequence[Any], now: datetime | None) -> Any:  # noqa: ANN401 a row
        """Settle and lease in one call: a whole batch that is done at once, anything else in full."""
        fold = self._settles % FOLD_EVERY == 0
        batch = settling.whole(outcomes, self._given.pop(outcomes[0].lease.nonce, ()))
        if batch is not None:
            row = await self._call(COMPLETE_AND_LEASE, *batch, *asked, fold, now)
            if row["settled"] is not None:
                return row
        values = [*settling.arguments(outcomes), False, *asked, fold, now]
        return await self._call(SETTLE_AND_LEASE, *values)

    async def renew(self, leases: Sequence[Lease], *, span: timedelta, now: datetime | None = None) -> set[JobId]:
        """See `ports.Leasing`."""
        known = {lease.nonce: lease.token for lease in leases}
        rows = await self._database.fetch(RENEW, list(known.values()), list(known), span, now)
        held = {row["nonce"]: set(row["jobs"]) for row in rows}
        return {lease.job_id for lease in leases if key_of(lease.job_id) in held.get(lease.nonce, ())}

    async def known(self, space: SpaceId, hashes: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
        """See `ports.Leasing`."""
        rows = await self._database.fetch(KNOWN, space, list(hashes))
        return {ContentHash(row["hash"]): row["embedding"] for row in rows}

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
        """Call what leases, once: a second call would lease more."""
        return await self._database.run(lambda db: db.fetchrow(statement, *values), repeat=False, only_calls=True)

    @asynccontextmanager
    async def _or_handed_back(self, nonce: int) -> AsyncIterator[None]:
        """If the caller never gets what it may have leased under this nonce, hand it back as soon as that can be."""
        if self._unanswered:
            await self._hand_back()
        try:
            yield
        except StoreError:
            self._unanswered.add(nonce)
            await self._hand_back()
            raise

    async def _hand_back(self) -> None:
        """Hand back leases that nobody got: nobody works on them."""
        for nonce in list(self._unanswered):
            try:
                row = await self._database.fetchrow(HAND_BACK, nonce)
            except StoreError:
                return  # still out of reach: before the next lease, or else the lease runs out by itself
            if not row["holds_on"]:
                self._unanswered.discard(nonce)
            if row["handed_back"]:
                self._database.woke()

    async def _leased(self, ask: Ask, nonce: int, row: Any, news: int) -> Leased:  # noqa: ANN401 a row
        self._turns.note(ask.spaces, row)
        if row["taken"] is None:
            self._database.wake.found_nothing(news)
        elif not self._database.catalogue.knows(row["epoch"], set(row["collections"])):
            await self._database.run(self._database.catalogue.read, repeat=True)
        answer = leasing.leased(ask, row, nonce, self._database.catalogue)
        if answer.leases:
            self._remember(answer.leases)
        return answer

    def _remember(self, leases: Sequence[Lease]) -> None:
        """Keep a batch in mind: if all of it is done, it is settled at once."""
        self._given[leases[0].nonce] = leases
        if len(self._given) > MOST_GIVEN:
            self._given.popitem(last=False)

    async def _settle(self, outcomes: Sequence[Outcome], now: datetime | None, *, last: bool) -> Settled:
        """Settle alone. It may be told twice, so a lost connection is no reason to give up."""
        row = await self._database.fetchrow(SETTLE, *settling.arguments(outcomes), last, now)
        return self._settled(outcomes, row, row["jobs"])

    async def _come_back(
        self, outcomes: Sequence[Outcome], settled: Settled, now: datetime | None, *, last: bool
    ) -> Settled:
        """Settle what was held by a transaction that ended soon; what is held for longer stays busy."""
        for pause in BUSY_PAUSES:
            if not settled.busy:
                break
            await asyncio.sleep(pause)
            left = [outcome for outcome in outcomes if outcome.lease.job_id in settled.busy]
            again = await self._settle(left, now, last=last)
            settled = Settled(jobs=settled.jobs | again.jobs, busy=again.busy)
        return settled

    def _settled(self, outcomes: Sequence[Outcome], row: Any, keys: Sequence[int]) -> Settled:  # noqa: ANN401 a row
        """Say which jobs were ours; tell of what became ready and what was stored."""
        if row["wakes"]:
            self._database.woke()
        if row["buried"]:
            for outcome in outcomes:
                if key_of(outcome.lease.job_id) in row["buried"]:
                    self._database.tell_buried(outcome.lease.job_id, Reason.QUOTA)
        if row["stored"]:
            facts = {"count": row["stored"], "seconds": row["seconds"]}
            self._database.telemetry.emit(Event.STORED, level="debug", **facts)
        if row["busy"] is None:  # a whole batch
            return Settled(jobs=frozenset([outcome.lease.job_id for outcome in outcomes]))
        return Settled(jobs=_named(outcomes, keys), busy=_named(outcomes, row["busy"]))


def _named(outcomes: Sequence[Outcome], keys: Sequence[int]) -> frozenset[JobId]:
    """Say which jobs these keys are, of those that were told of."""
    wanted = set(keys)
    return frozenset(outcome.lease.job_id for outcome in outcomes if key_of(outcome.lease.job_id) in wanted)
