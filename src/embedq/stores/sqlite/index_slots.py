"""Where in an index a record's vector is."""

import numpy as np
from numpy.typing import NDArray

Rids = NDArray[np.int64]
Slots = NDArray[np.int64]

_BITS = 8  # 256 rids to a page: four bytes a record where rids are dense, a kilobyte at worst
_PAGE = 1 << _BITS
_LOW = _PAGE - 1
_NOWHERE = -1


class SlotTable:
    """Record number → slot, looked up a whole array at a time.

    A dictionary would take 30 times the memory and look up a filter of 50,000 records one by one. Pages exist only
    where rids do, since the collections of a file share one sequence of numbers.
    """

    def __init__(self) -> None:
        """Start empty. Row 0 of the pool is the page of all absent rids."""
        self._pool = np.full((1, _PAGE), _NOWHERE, dtype=np.int32)
        self._row_of = np.zeros(1, dtype=np.int32)  # page → row; the last entry stays 0, for all rids beyond
        self._used = 1
        self._free: list[int] = []

    def find(self, rids: Rids) -> Slots:
        """Return the slot of each rid, -1 where there is none."""
        rows = self._row_of.take(rids >> _BITS, mode="clip")
        slots: Slots = self._pool[rows, rids & _LOW].astype(np.int64)
        return slots

    def place(self, rids: Rids, slots: Slots) -> None:
        """Set the slots of these records."""
        pages = rids >> _BITS
        self._make(np.unique(pages))
        self._pool[self._row_of[pages], rids & _LOW] = slots

    def forget(self, rids: Rids) -> None:
        """Remove records that are in the table, and pages that become empty."""
        self._pool[self._row_of[rids >> _BITS], rids & _LOW] = _NOWHERE
        pages = np.unique(rids >> _BITS)
        rows = self._row_of[pages]
        empty = (self._pool[rows] == _NOWHERE).all(axis=1)
        self._row_of[pages[empty]] = 0
        self._free.extend(rows[empty].tolist())

    def _make(self, pages: NDArray[np.int64]) -> None:
        if pages.size and pages[-1] + 2 > self._row_of.size:
            longer = max(int(pages[-1]) + 2, 2 * self._row_of.size)
            self._row_of = np.concatenate([self._row_of, np.zeros(longer - self._row_of.size, dtype=np.int32)])
        new = pages[self._row_of[pages] == 0]
        self._row_of[new] = self._rows(new.size)

    def _rows(self, count: int) -> list[int]:
        """Return empty rows, reused ones first."""
        reused = [self._free.pop() for _ in range(min(count, len(self._free)))]
        fresh = range(self._used, self._used + count - len(reused))
        self._used = fresh.stop
        if self._used > len(self._pool):
            grown = np.full((max(self._used, 2 * len(self._pool)), _PAGE), _NOWHERE, dtype=np.int32)
            grown[: len(self._pool)] = self._pool
            self._pool = grown
        return [*reused, *fresh]
