"""Repair on demand: misplaced jobs are queued again, and records with neither vector nor job get a job."""

from collections.abc import Callable
from dataclasses import dataclass

from embedq.operator.report import Repaired, RepairReport
from embedq.ports import Keeping, Placing
from embedq.ports.needs import RepairStore

CHUNK = 1000  # records or jobs per round trip

Progress = Callable[[str, int], None]  # the collection, and how many of its records were read since the last call


@dataclass(slots=True)
class _Allowance:
    """How many more records may be read; None: all."""

    left: int | None

    @property
    def chunk(self) -> int:
        return CHUNK if self.left is None else min(CHUNK, self.left)

    def spend(self, records: int) -> None:
        if self.left is not None:
            self.left -= records


async def repair(store: RepairStore, *, deep: bool, limit: int | None, progress: Progress | None) -> RepairReport:
    """Walk all collections by key, so that records that keep failing do not hide the others."""
    allowance, found, report = _Allowance(limit), {}, progress or _no_progress
    placed = await put_in_place(store)
    for collection in await store.collections():
        name = collection.declaration.name
        mended = await _recount(store, name, report) if deep else 0
        found[name] = await _arm(store, name, allowance, report, mended)
    return RepairReport(by_collection=found, complete=allowance.left is None or allowance.left > 0, placed=placed)


async def put_in_place(store: Placing) -> int:
    """Queue jobs again that are in no place or in several; return how many. It reads all jobs."""
    mended = 0
    while misplaced := await store.misplaced(limit=CHUNK):
        placed = await store.put_in_place(misplaced)
        mended += placed
        if not placed:  # they are in place by now
            break
    return mended


async def _recount(store: Keeping, name: str, report: Progress) -> int:
    mended, after = 0, None
    while True:
        some, after = await store.recount(name, after=after, limit=CHUNK)
        mended += some
        report(name, CHUNK)
        if after is None:
            return mended


async def _arm(store: Keeping, name: str, allowance: _Allowance, report: Progress, mended: int) -> Repaired:
    missing = armed = 0
    after: str | None = None
    while allowance.chunk > 0:
        chunk = await store.missing(name, after=after, limit=allowance.chunk)
        if not chunk:
            break
        to_arm = [record.id for record in chunk if record.needs_job]
        armed += await store.reconcile(name, to_arm) if to_arm else 0
        missing, after = missing + len(chunk), chunk[-1].key
        allowance.spend(len(chunk))
        report(name, len(chunk))
    return Repaired(missing=missing, armed=armed, mended=mended)


def _no_progress(_collection: str, _records: int) -> None:
    """Report no progress."""
