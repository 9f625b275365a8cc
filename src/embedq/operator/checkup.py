"""Checks for everything that commonly goes wrong."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

from embedq.errors import StoreError
from embedq.model import Health
from embedq.operator.repairing import put_in_place
from embedq.operator.report import Finding, QueueStatus, Verdict, counted
from embedq.operator.watching import RECOVERY_OFF, START_ONE, losses, troubles, waiting
from embedq.ports import Attaching, Placing
from embedq.ports.needs import CheckupStore

CLOCK_SLACK = timedelta(minutes=1)
PLACED_AT_ONCE = 1000
IN_PLACE = "every open job is runnable, waits, or is leased once"


async def examine(
    store: CheckupStore,
    status: Callable[[], Awaitable[QueueStatus]],
    probes: Sequence[Callable[[], Awaitable[Sequence[Finding]]]],
    *,
    repair: bool,
) -> list[Finding]:
    """Check the database first, and the queue only if it answers."""
    findings = [await _database(store)]
    if findings[0].verdict is Verdict.OK:
        findings += await _findings_of("queue", _queue(status, datetime.now(UTC)))
        findings += await _findings_of("places", _places(store, repair=repair))
        findings += await _findings_of("tables", _tables(store))
    for probe in probes:
        findings += await probe()
    return findings


async def _findings_of(check: str, look: Awaitable[Sequence[Finding]]) -> Sequence[Finding]:
    """Turn a refused check into a finding, such as for a role that may not read all: the other checks still run."""
    try:
        return await look
    except StoreError as trouble:
        return [_problem(check, str(trouble))]


async def _database(store: CheckupStore) -> Finding:
    try:
        await store.check()
    except StoreError as trouble:
        return _problem("database", str(trouble))
    return Finding(check="database", verdict=Verdict.OK, message="answers, and its schema fits")


async def _queue(look: Callable[[], Awaitable[QueueStatus]], now: datetime) -> list[Finding]:
    status = await look()
    return [_pause(status), _workers(status), _dead(status), _recovery(status), _clock(status, now)]


async def _places(store: Placing, *, repair: bool) -> list[Finding]:
    """Find open jobs in no place, which are never leased, or in several, which are leased twice."""
    misplaced = await store.misplaced(limit=PLACED_AT_ONCE)
    if not misplaced:
        return [_ok("places", IN_PLACE)]
    some = f"{'at least ' if len(misplaced) == PLACED_AT_ONCE else ''}{counted(len(misplaced), 'job')}"
    found = f"{some} in no place or in several"
    if not repair:
        return [_problem("places", f"{found}: `embedq doctor --repair` queues them again")]
    try:
        mended = await put_in_place(store)
    except StoreError as trouble:
        return [_problem("places", f"{found}, and they could not be queued again: {trouble}")]
    if not mended:  # they moved during the check
        return [_ok("places", IN_PLACE)]
    return [_warning("places", f"{counted(mended, 'job')} stood in no place or in several, queued again")]


async def _tables(store: CheckupStore) -> list[Finding]:
    """Find attached tables that cannot be followed, or have rows that cannot be records."""
    attached = await store.attached() if isinstance(store, Attaching) else []
    findings = [_problem("tables", f"{one.collection}: {one.problem}") for one in attached if one.problem]
    findings += [
        _warning("tables", f"{one.collection}: {counted(one.refusals, 'row')} cannot be embedded, see `attachments`")
        for one in attached
        if one.refusals
    ]
    if attached and not findings:
        return [_ok("tables", f"{len(attached)} attached, and followed")]
    return findings


def _pause(status: QueueStatus) -> Finding:
    if status.paused:
        return _warning("queue", "paused: nothing is leased until `embedq resume`")
    return _ok("queue", f"runs; {status.total('pending'):,} pending, {status.total('processing'):,} processing")


def _workers(status: QueueStatus) -> Finding:
    alive = [worker for worker in status.workers if worker.alive]
    waits = waiting(status.counts)
    if not alive:
        what = f"{counted(waits, 'job')} waiting, and no worker is alive" if waits else "none is alive"
        verdict = Verdict.PROBLEM if waits and not status.paused else Verdict.WARNING
        return Finding(
            check="workers", verdict=verdict, message="; ".join([f"{what}: {START_ONE}", *losses(status.workers)])
        )
    ill = [f"{w.info.id} is {w.report.health.value}" for w in alive if w.report.health is not Health.HEALTHY]
    if ill or troubles(alive):
        message = "; ".join([*ill, *troubles(alive), *losses(status.workers)])
        return _problem("workers", message)
    if gone := losses(status.workers):
        return _warning("workers", "; ".join([f"{len(alive)} alive and healthy", *gone]))
    return _ok("workers", f"{len(alive)} alive and healthy")


def _dead(status: QueueStatus) -> Finding:
    if failed := status.total("failed"):
        return _warning(
            "dead letters", f"{failed:,}: `embedq dead stats` groups their causes, `embedq retry-failed` tries again"
        )
    return _ok("dead letters", "none")


def _recovery(status: QueueStatus) -> Finding:
    return _ok("recovery", "on") if status.recovery else _warning("recovery", RECOVERY_OFF)


def _clock(status: QueueStatus, now: datetime) -> Finding:
    """Check for workers last seen in the future: a clock was set back, or two hosts disagree."""
    latest = max((worker.seen_at for worker in status.workers), default=now)
    if latest > now + CLOCK_SLACK:
        ahead = (latest - now).total_seconds()
        return _warning("clock", f"a worker was last seen {ahead:.0f} s in the future: was the clock set back?")
    return _ok("clock", "agrees with what the database saw")


def _ok(check: str, message: str) -> Finding:
    return Finding(check=check, verdict=Verdict.OK, message=message)


def _warning(check: str, message: str) -> Finding:
    return Finding(check=check, verdict=Verdict.WARNING, message=message)


def _problem(check: str, message: str) -> Finding:
    return Finding(check=check, verdict=Verdict.PROBLEM, message=message)
