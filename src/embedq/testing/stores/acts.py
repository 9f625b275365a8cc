"""The acts of a walk: each is applied to the model and to the real store, and both results must be equal.

An act has a name and some numbers, and the numbers choose among what exists when it runs. So a walk is still valid when
steps are removed from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from embedq.errors import NotFound
from embedq.model import (
    Ask,
    Done,
    Failed,
    JobFilter,
    JobId,
    Lease,
    Leased,
    NewRecord,
    Outcome,
    Patch,
    Priority,
    Reason,
    Receipt,
    RecordId,
    Released,
    Retry,
    Skipped,
    SpaceId,
    WorkerId,
)
from embedq.policy.attempts import turn_of
from embedq.ports import Store
from embedq.testing.stores.choices import check_choice, due
from embedq.testing.stores.model import JobRow, Name, RecordRow, RulesModel
from embedq.testing.stores.stage import DAY, FAULT, HOUR, LEASE, MINUTE, NOON, SECOND, vector_of

T = TypeVar("T")
TEXTS = ("amber loom", "birch loom", "cedar mill")
NAMES: tuple[Name, ...] = tuple(
    (collection, RecordId(id_)) for collection, id_ in (("near", "a"), ("near", "b"), ("also", "a"), ("far", "a"))
)
WORKERS = tuple(map(WorkerId, ("w1", "w2", "w3")))
SPANS = (10 * SECOND, MINUTE, 6 * MINUTE, 40 * MINUTE, 2 * HOUR, DAY)
PRIORITIES = (None, None, *Priority)


@dataclass
class Pair:
    """A model, the real store (opened twice), the moment, and every lease that was ever given."""

    model: RulesModel
    stores: tuple[Store, Store]
    spaces: dict[str, SpaceId]  # by collection
    calls: list[str]  # the calls to the stores
    now: datetime = NOON
    leases: dict[int, list[Lease]] = field(default_factory=dict)  # by token
    settled_before: list[list[Outcome]] = field(default_factory=list)
    reported_gone: set[Name] = field(default_factory=set)  # records that a worker reported as gone
    numbers: set[JobId] = field(default_factory=set)  # of every job there ever was
    erased: dict[Name, int] = field(default_factory=dict)  # the newest token when a record's text was purged

    async def put(self, which: int, text: int, lane: int) -> None:
        """Write one record, or the first two together."""
        names = NAMES[:2] if which % 7 == 6 else [_pick(NAMES, which)]
        priority = _pick(PRIORITIES, lane)
        records = [NewRecord(id=id_, text=_pick(TEXTS, text), priority=priority) for _, id_ in names]
        receipts = await self._store(which).put(names[0][0], records, now=self.now)
        lane_of = Priority.NORMAL if priority is None else priority
        rows = [self.model.put(n, self.spaces[n[0]], _pick(TEXTS, text), lane_of, self.now) for n in names]
        self._same_receipts(receipts, rows)

    async def patch(self, which: int, text: int, lane: int) -> None:
        """Change a live record; a missing one is refused."""
        name = _pick(NAMES, which)
        there = self.model.records.get(name)
        patch = Patch(text=_pick(TEXTS, text) if lane % 3 else None)
        try:
            receipt = await self._store(lane).patch(*name, patch, now=self.now)
        except NotFound:
            assert there is None or not there.live, "a live record was not found"
            return
        assert there is not None
        assert there.live, "a record that is gone was patched"
        new_text = patch.text or there.text or ""
        row = self.model.put(name, there.space, new_text, Priority.NORMAL, self.now)
        self._same_receipts([receipt], [row])

    async def delete(self, which: int, purge: int, _: int) -> None:
        """Delete a record, softly or permanently."""
        collection, id_ = name = _pick(NAMES, which)
        erase = purge % 3 == 0
        gone = await self._store(purge).delete(collection, [id_], purge=erase, now=self.now)
        row = self.model.records.get(name)
        there = row is not None and self.model.delete(row, self.now, purge=erase)
        assert list(gone) == ([id_] if there else [])
        if there and erase:
            self.erased[name] = max(self.leases, default=0)

    async def enqueue(self, which: int, force: int, lane: int) -> None:
        """Enqueue a record by hand."""
        name = _pick(NAMES, which)
        row = self.model.records.get(name)
        if row is None or not row.live:
            return
        forced, priority = bool(force % 3), _pick(tuple(Priority), lane)
        receipts = await self._store(lane).enqueue(
            name[0], [name[1]], force=forced, job_priority=priority, now=self.now
        )
        if forced or (not row.current and not (row.job and row.job.is_open)):
            self.model.arm(row, self.now, priority=priority, forced=forced)
        elif row.job and row.job.is_open:
            row.job.priority = max(row.job.priority, priority)
        self._same_receipts(receipts, [row])

    async def cancel(self, which: int, via: int, _: int) -> None:
        """Cancel some job by hand, whatever its state."""
        if self.model.jobs:
            row = _pick(self.model.jobs, which)
            assert row.id is not None
            await self._store(via).cancel(row.id, now=self.now)
            self.model.cancel(row, self.now)

    async def revive(self, which: int, how: int, _: int) -> None:
        """Revive one job, or all dead letters of a kind."""
        if how % 3 and self.model.jobs:
            row = _pick(self.model.jobs, which)
            wanted, job, chosen = JobFilter(), row.id, [row]
        else:
            reason = _pick((None, Reason.PERMANENT_ERROR, Reason.CRASH_LOOP, Reason.QUOTA), which)
            wanted, job = JobFilter(reason=reason), None
            dead = [row for row in self.model.jobs if row.status == "failed"]
            chosen = [row for row in dead if reason in (None, row.reason)]
        revived = await self._store(how).revive(wanted, job=job, now=self.now)
        assert revived == self.model.revive(chosen, self.now)

    async def lease(self, worker: int, limit: int, spaces: int) -> None:
        """Lease some jobs; where there is none, mostly edit a record first."""
        ask = self._ask(worker, limit, spaces)
        if limit % 4 and not due(self.model, ask, self.now):
            name = _pick(NAMES, spaces)
            row = self.model.records.get(name)
            text = TEXTS.index(row.text) + 1 if row is not None and row.text is not None else worker
            await self.put(NAMES.index(name), text, limit)
        self._leased(ask, await self._store(worker).lease(ask, now=self.now))

    async def crash(self, worker: int, limit: int, spaces: int) -> None:
        """Lease some jobs, and crash; restart, and crash with them again."""
        for _ in range(limit // 20 % 4 + 1):
            await self.lease(worker, limit, spaces)
            await self._take_back([_pick(WORKERS, worker)], None)

    async def refuse(self, worker: int, limit: int, spaces: int) -> None:
        """Lease some jobs and release them, since the provider refuses for now."""
        before = set(self.leases)
        await self.lease(worker, limit, spaces)
        for token in set(self.leases) - before:
            await self._settle([Released(lease, MINUTE, FAULT) for lease in self.leases[token]], worker)
        self.now += 40 * MINUTE

    async def settle(self, which: int, how: int, kinds: int) -> None:
        """Settle some lease, now or long after it was lost: whole batches successfully, or mixed and in part."""
        if not any(row.status == "processing" for row in self.model.jobs):
            await self.lease(which, how, kinds)
        if not self.leases:
            return
        batch = list(_pick(self._batches(how), which))
        if how % 3 == 0:
            outcomes: list[Outcome] = [_success(lease) for lease in batch]
        else:
            batch += _pick(self._batches(how), which + 1) if how % 5 == 0 else []
            outcomes = [_outcome(lease, kinds // 11**n) for n, lease in enumerate(batch)]
            outcomes = outcomes[kinds % 2 :] or outcomes
        await self._settle(outcomes, how)

    async def settle_again(self, which: int, how: int, _: int) -> None:
        """Repeat a settle: its answer was lost."""
        if self.settled_before:
            await self._settle(_pick(self.settled_before[::-1], which % 4), how)

    async def renew(self, which: int, via: int, _: int) -> None:
        """Renew all that a lease held; a batch is renewed as a whole."""
        if self.leases:
            batch = _pick(list(reversed(self.leases.values())), which % 4)
            renewed = await self._store(via).renew(batch, span=LEASE, now=self.now)
            assert renewed == {lease.job_id for lease in batch if self.model.renew(lease, LEASE, self.now)}

    async def pass_time(self, which: int, _: int, __: int) -> None:
        """Advance the clock."""
        self.now += _pick(SPANS, which)

    async def set_clock_back(self, _: int, __: int, ___: int) -> None:
        """Set the clock back by an hour."""
        self.now -= HOUR

    async def rescue(self, which: int, how: int, _: int) -> None:
        """Rescue what expired, what dead workers held, or what was not renewed for a while."""
        self.now += 6 * MINUTE if how // 4 % 2 else MINUTE
        dead = [_pick(WORKERS, which)] if how % 4 == 1 else []
        await self._take_back(dead, MINUTE if how % 4 == 2 else None)

    async def _take_back(self, dead: Sequence[WorkerId], unrenewed_for: timedelta | None) -> None:
        found = await self.stores[0].rescue(dead=dead, unrenewed_for=unrenewed_for, now=self.now)
        rows = self.model.rescue(self.now, dead, unrenewed_for)
        assert {(row.job_id, row.crashes, row.status, row.worker_id) for row in found} == {
            (row.id, row.crashes, row.status, row.worker) for row in rows
        }, "other jobs were rescued"

    async def reconcile(self, which: int, _: int, __: int) -> None:
        """Give jobs to records that need one: on one database there are none."""
        for collection in self.spaces:
            rows = [row for row in self.model.records.values() if row.name[0] == collection]
            found = await self._store(which).reconcile(collection, [row.name[1] for row in rows], now=self.now)
            assert found == sum(self.model.reconcile(row, self.now) for row in rows)
            assert found == 0 or self.reported_gone, "the reconciler found something on one database"

    async def purge(self, which: int, how: int, _: int) -> None:
        """Delete old jobs."""
        older_than = _pick((MINUTE, HOUR, DAY), how)
        while await self._store(which).purge(older_than=older_than, now=self.now):
            continue
        self.model.purge(self.now - older_than)

    async def replay_quota(self, which: int, _: int, __: int) -> None:
        """Revive old quota letters."""
        old = [row for row in self.model.jobs if row.reason is Reason.QUOTA and row.ended_at is not None]
        chosen = [row for row in old if row.ended_at is not None and row.ended_at <= self.now - DAY]
        revived = await self._store(which).replay_quota(older_than=DAY, now=self.now)
        assert revived == self.model.revive(chosen, self.now)

    async def pause(self, which: int, _: int, __: int) -> None:
        """Stop all leasing."""
        await self._store(which).pause()
        self.model.paused = True

    async def resume(self, which: int, _: int, __: int) -> None:
        """Resume leasing, and lift holds."""
        await self._store(which).resume()
        self.model.paused = False
        self.model.holds.clear()

    async def hold(self, which: int, how: int, _: int) -> None:
        """Hold a provider for a while."""
        space, span = _pick(list(self.spaces.values()), which), _pick((10 * SECOND, MINUTE, HOUR), how)
        await self._store(how).hold(space, span, now=self.now)
        self.model.hold(space, self.now + span, self.now)

    def _store(self, number: int) -> Store:
        return self.stores[number // 3 % 2]

    def _ask(self, worker: int, limit: int, spaces: int) -> Ask:
        every = sorted(set(self.spaces.values()))
        asked = every if spaces % 4 else [_pick(every, spaces // 4)]
        prefetch = limit // 5 % 4 == 0
        return Ask(worker=_pick(WORKERS, worker), spaces=asked, limit=limit % 5 + 1, span=LEASE, prefetch=prefetch)

    def _batches(self, how: int) -> list[list[Lease]]:
        """Choose among leases: those that still hold something, the newest, or all there ever were."""
        every = list(reversed(self.leases.values()))
        held = [batch for batch in every if any(self._is_held(lease) for lease in batch)]
        return (held if how % 4 < 2 else every[: 3 if how % 4 == 2 else None]) or every

    def _is_held(self, lease: Lease) -> bool:
        row = self.model.find(lease.job_id)
        return row is not None and row.status == "processing" and row.token == lease.token

    async def _settle(self, outcomes: Sequence[Outcome], how: int) -> None:
        ask = self._ask(how, how // 3, how // 7) if how // 2 % 3 == 0 else None
        self.settled_before.append(list(outcomes))
        self.reported_gone |= {
            (one.lease.collection, one.lease.record_id) for one in outcomes if isinstance(one, Skipped)
        }
        erased = [lease for lease in _paid_for(outcomes) if self._is_erased(lease)]
        before = await self._known(erased, how)
        settled = await self._store(how).settle(outcomes, then=ask, now=self.now)
        ours = {one.lease.job_id for one in sorted(outcomes, key=turn_of) if self.model.settle(one, self.now)}
        assert settled.jobs == ours
        if ask is not None:
            self._leased(ask, settled.next)
        paid = [lease for lease in _paid_for(outcomes) if lease not in erased]
        assert await self._known(paid, how) == {(lease.space, lease.hash) for lease in paid}, "it was paid for"
        known = await self._known([lease for lease in erased if not self._is_somebodys(lease)], how)
        assert known <= before | {(lease.space, lease.hash) for lease in paid}, "its text was removed for good"

    async def _known(self, leases: Sequence[Lease], how: int) -> set[tuple[SpaceId, bytes]]:
        """Return which of these texts have a vector in their spaces: stored, or kept for reuse."""
        return {(one.space, found) for one in leases for found in await self._store(how).known(one.space, [one.hash])}

    def _is_erased(self, lease: Lease) -> bool:
        """Say whether the text was removed permanently since the lease was given."""
        return self.erased.get((lease.collection, lease.record_id), -1) >= lease.token

    def _is_somebodys(self, lease: Lease) -> bool:
        return any(row.space == lease.space and row.vector == lease.text for row in self.model.records.values())

    def _leased(self, ask: Ask, leased: Leased) -> None:
        """Check that the store chose by the rules, and apply its choice to the model."""
        rows = [self._row_of(lease.job_id) for lease in leased.leases]
        check_choice(self.model, ask, rows, leased.again_after, self.now)
        for row, lease in zip(rows, leased.leases, strict=True):
            record = row.record
            assert lease.token > row.token, "a token does not grow"
            assert (lease.collection, lease.record_id, lease.space) == (*record.name, record.space)
            assert (lease.text, lease.current, lease.forced) == (record.text, record.current, row.forced)
            assert (lease.attempts, lease.crashes, lease.until) == (row.attempts, row.crashes, self.now + ask.span)
            self.model.lease(row, lease, ask, self.now)
            self.leases.setdefault(lease.token, []).append(lease)

    def _row_of(self, job: JobId) -> JobRow:
        row = self.model.find(job)
        assert row is not None, f"job {job} was leased, and nobody knows it"
        return row

    def _same_receipts(self, receipts: Sequence[Receipt], rows: Sequence[RecordRow]) -> None:
        for receipt, row in zip(receipts, rows, strict=True):
            assert (receipt.id, receipt.embedding_status) == (row.name[1], row.embedding_status)
            self.same_number(row, receipt.job_id)

    def same_number(self, record: RecordRow, job: JobId | None) -> None:
        """Check which job a record has. A new one has a number that was never used."""
        if record.job is not None and record.job.id is None:
            assert job not in self.numbers, "a number was used again"
            record.job.id = job
        assert job == (record.job and record.job.id), "the record has another job"
        self.numbers |= {job} if job else set()


def _pick(things: Sequence[T], number: int) -> T:
    return things[number % len(things)]


def _success(lease: Lease) -> Outcome:
    """End an attempt successfully, without a call where none is needed."""
    return Done(lease) if lease.current and not lease.forced else Done(lease, vector_of(lease.text or ""))


def _outcome(lease: Lease, kind: int) -> Outcome:
    """End an attempt in one of eleven ways."""
    ways: tuple[Outcome, ...] = (
        _success(lease),
        _success(lease),
        Done(lease, vector_of(lease.text or "")),
        Retry(lease, FAULT, 10 * SECOND),
        Retry(lease, FAULT, MINUTE),
        Failed(lease, FAULT, Reason.PERMANENT_ERROR),
        Released(lease),
        Released(lease, after=MINUTE),
        Released(lease, after=MINUTE, refused=FAULT),
        Released(lease, refused=FAULT),
        Skipped(lease),
    )
    return _pick(ways, kind)


def _paid_for(outcomes: Sequence[Outcome]) -> list[Lease]:
    return [outcome.lease for outcome in outcomes if isinstance(outcome, Done) and outcome.vector is not None]
