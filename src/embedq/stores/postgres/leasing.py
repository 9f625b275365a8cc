"""Lease jobs: the turn of the lanes, this process's position in each queue, and how a lease is read."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import repeat
from typing import Any, TypeVar

from embedq.model import Ask, Lease, Leased, RetryPolicy, SpaceId
from embedq.stores.postgres.catalogue import Catalogue
from embedq.stores.postgres.keys import LANE_BITS, LANES, SPACE_BITS

LOWEST_TURN = 10  # one lease in ten starts at the lowest lane that has work
SOLO_TURN = 2  # of the leases that may take a crashed job, every second does
STARTS = [lane << LANE_BITS for lane in range(LANES)]
NO_JOB = -1
T = TypeVar("T")
Home = tuple[str, RetryPolicy | None]  # a collection's name and retry policy
Right = tuple[int, int, datetime]  # what all leases of a batch share: token, nonce, and expiry
GONE = ("", None, b"")  # a record that no longer exists: its id, text and hash

# A scan from the start is slow where a snapshot elsewhere keeps dead rows from being removed. Only then is the order of
# a queue kept loosely: late commits and released jobs lie below the marks until the next scan from the start.
SLOW_SECONDS = 0.0008
SLOW_SCANS = 3  # in a row
WHOLE_TURN = 20  # at least so many turns between two scans from the start,
WHOLE_SHARE = 0.0005  # and one more per this many seconds that it takes


class Turns:
    """Counts leases, so that low lanes and crashed jobs get their turn, and remembers how far each queue was taken."""

    def __init__(self) -> None:
        """Start at the first turn, at the start of every queue."""
        self._leases = 0
        self._asks_alone = 0
        self._slow = 0
        self._by_marks = 0  # turns until the next scan from the start
        self._marks: dict[SpaceId, tuple[list[int], list[int]]] = {}

    def lowest_first(self) -> bool:
        """Say whether the next lease starts at the lowest lane."""
        return (self._leases + 1) % LOWEST_TURN == 0

    def solo_first(self) -> bool:
        """Say whether the next lease that may take a crashed job should."""
        return (self._asks_alone + 1) % SOLO_TURN == 1

    def marks(self, spaces: Sequence[SpaceId]) -> tuple[list[int], list[int]]:
        """Return the positions after which the next scan starts, by space and lane."""
        found = [(self._marks.get(space) if self._by_marks > 0 else None) or _start() for space in spaces]
        return [key for keys, _ in found for key in keys], [job for _, jobs in found for job in jobs]

    def note(self, spaces: Sequence[SpaceId], row: Any) -> None:  # noqa: ANN401 a row
        """Update from a lease's answer."""
        self._asks_alone += bool(row["solo"])
        self._note_scan(row["scan_seconds"])
        if not row["from_line"]:
            return
        self._leases += 1
        self._marks[spaces[row["asked"] - 1]] = row["mark_keys"], row["mark_jobs"]

    def _note_scan(self, seconds: float) -> None:
        if self._by_marks > 0:
            self._by_marks -= 1
            return
        self._slow = self._slow + 1 if seconds > SLOW_SECONDS else 0
        if self._slow >= SLOW_SCANS:
            self._by_marks = WHOLE_TURN + round(seconds / WHOLE_SHARE)


def _start() -> tuple[list[int], list[int]]:
    return STARTS, [NO_JOB] * LANES


def arguments(ask: Ask, turns: Turns) -> list[Any]:
    """Write a worker's request as arguments of the database function; the last is a nonce."""
    keys, jobs = turns.marks(ask.spaces)
    return [
        ask.worker,
        list(ask.spaces),
        ask.limit,
        ask.span,
        ask.prefetch,
        turns.lowest_first(),
        turns.solo_first(),
        keys,
        jobs,
        secrets.randbits(62),
    ]


def leased(ask: Ask, row: Any, nonce: int, catalogue: Catalogue) -> Leased:  # noqa: ANN401 a row
    """Read the answer to a lease request with this nonce, best job first."""
    if row["taken"] is None:
        return Leased(again_after=row["again"])
    homes = {id_: _home(catalogue, id_) for id_ in set(row["collections"])}
    right = (row["token"], nonce, row["until"])
    space = ask.spaces[row["asked"] - 1]
    return Leased(leases=_leases(row, space, homes, right))


def _leases(row: Any, space: SpaceId, homes: Mapping[int, Home], right: Right) -> list[Lease]:  # noqa: ANN401 a row
    """Make leases, column by column: what is the same for all, or set for none, is not looked up for each."""
    taken, make = row["taken"], tuple.__new__  # half the time of calling the class
    rids = [job >> SPACE_BITS for job in taken]
    given = repeat(*homes.values()) if len(homes) == 1 else [homes[id_] for id_ in row["collections"]]
    records = _records(row, rids)
    if ("", None) in homes.values():
        records = [record if name else GONE for (name, _), record in zip(given, records, strict=False)]
    columns = (
        _noted(taken, row["renumbered"], row["serials"], rids),
        given,
        records,
        _are_not_in(rids, row["lacking"]),
        _are_not_in(taken, row["forced"]),
        _noted(taken, row["tried"], row["attempts"], repeat(0)),
        _noted(taken, row["crashed"], row["crashes"], repeat(0)),
        _noted(rids, row["erased"], row["erasures"], repeat(None)),
    )
    return [
        make(
            Lease,
            (f"{job}.{serial}", name, id_, space, text, hash_, current, not plain, tries, crashes, retry, *right, mark),
        )
        for job, serial, (name, retry), (id_, text, hash_), current, plain, tries, crashes, mark in zip(
            taken, *columns, strict=False
        )
    ]


def _records(row: Any, rids: Sequence[int]) -> Iterable[tuple[str, str | None, bytes]]:  # noqa: ANN401 a row
    """Combine the records of a lease; unless it names them, they are those of its jobs."""
    found = list(zip(row["records"] or (), row["texts"] or (), row["hashes"] or (), strict=True))
    if row["rids"] is None and found:
        return found
    known = dict(zip(row["rids"] or (), found, strict=True))
    return [known.get(rid, GONE) for rid in rids]


def _are_not_in(numbers: Sequence[int], some: Sequence[int] | None) -> Iterable[bool]:
    """Say for each number whether it is not in a set, which mostly holds none or all."""
    if some is None or len(some) == len(numbers):
        return repeat(some is None)
    found = frozenset(some)
    return [number not in found for number in numbers]


def _noted(
    numbers: Sequence[int], noted: Sequence[int] | None, values: Sequence[int] | None, others: Iterable[T]
) -> Iterable[T | int]:
    """Give each job or record its noted value, and the others a default."""
    if noted is None:
        return others
    known = dict(zip(noted, values or (), strict=True))
    return [known.get(number, other) for number, other in zip(numbers, others, strict=False)]


def _home(catalogue: Catalogue, id_: int) -> Home:
    """Return a collection's name and policy; a dropped one has no name, and its jobs no text."""
    found = catalogue.name_of(id_)
    return ("", None) if found is None else (found.name or "", found.retry)
