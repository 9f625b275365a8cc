"""The vectors of one collection in memory, searched exactly."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from embedq.errors import Invalid, SearchUnavailable
from embedq.model import Vector
from embedq.stores.sqlite.index_lock import Turns
from embedq.stores.sqlite.index_slots import Rids, Slots, SlotTable

Scores = NDArray[np.float32]

_HEADROOM = 1.125  # after a load, so that the first new vector does not move all the others


class FlatIndex:
    """Every vector as a row of unit length, so that the inner product is the cosine. Zero vectors score 0.

    Searches run concurrently with each other, never with a change.
    """

    def __init__(self, dimensions: int) -> None:
        """Start empty."""
        self.dimensions = dimensions
        self.changes = 0  # vectors added, overwritten and removed so far
        self._faiss = _load_faiss()
        self._flat = self._faiss.IndexFlatIP(dimensions)
        self._rids: Rids = np.empty(0, dtype=np.int64)  # by slot, with spare capacity
        self._slots = SlotTable()
        self._turns = Turns()

    @classmethod
    def blank(cls, dimensions: int, count: int) -> Self:
        """Allocate so many vectors. The caller writes them into `content`, and then calls `adopt`."""
        index = cls(dimensions)
        index._resize(int(count * _HEADROOM))
        index._resize(count)
        index._rids = np.empty(count, dtype=np.int64)
        return index

    def adopt(self) -> None:
        """Accept what was written into a blank index; it can be searched from now on."""
        self._slots.place(self._rids, np.arange(len(self), dtype=np.int64))

    def __len__(self) -> int:
        """Count the vectors."""
        return int(self._flat.ntotal)

    def apply(self, rids: Rids, matrix: Vector, gone: Rids) -> None:
        """Remove `gone` where present, then write each rid's row of `matrix`. No rid may occur twice."""
        rows = _unit(matrix)
        with self._turns.writing():
            self._remove(gone)
            self._write(rids, rows)

    def search(self, vector: Vector, k: int, allowed: Rids | None = None) -> tuple[Rids, Scores]:
        """Find the k nearest, best first, among `allowed` if given: distinct rids, of which some may have no vector."""
        if vector.shape != (self.dimensions,):
            raise Invalid(
                f"The query vector has shape {vector.shape}; this collection's have {self.dimensions} numbers."
            )
        query = _unit(vector[np.newaxis])
        with self._turns.reading():
            slots, scores = self._nearest(query, k, allowed)
            rids = self._rids[slots]
        best = np.lexsort((rids, -scores))
        return rids[best], scores[best].clip(-1, 1)

    @contextmanager
    def content(self) -> Iterator[tuple[Rids, Vector]]:
        """Return the records' numbers and unit vectors by slot, without a copy. Nothing may change meanwhile."""
        with self._turns.reading():
            yield self._rids[: len(self)], self._rows()

    def _nearest(self, query: Vector, k: int, allowed: Rids | None) -> tuple[Slots, Scores]:
        held = None if allowed is None else self._held(allowed)
        k = min(k, len(self) if held is None else len(held))
        if k <= 0:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)
        self._faiss.omp_set_num_threads(1)  # set per calling thread; more would compete with the model for the cores
        scores, slots = self._flat.search(query, k, params=self._only(held))
        found = slots[0] >= 0
        return slots[0][found], scores[0][found]

    def _only(self, held: Slots | None) -> Any:  # noqa: ANN401 - FAISS has no types worth the name
        """Tell FAISS which slots to search."""
        if held is None:
            return None
        # Scanning a list beats a bitmap at every share from 1 to 100 percent, and numpy from a few hundred on.
        return self._faiss.SearchParameters(sel=self._faiss.IDSelectorArray(held))

    def _held(self, rids: Rids) -> Slots:
        slots = self._slots.find(rids)
        return slots[slots >= 0]

    def _write(self, rids: Rids, rows: Vector) -> None:
        """Overwrite existing rows in place, a thousand times cheaper than remove and add; append the rest at once."""
        slots = self._slots.find(rids)
        known = slots >= 0
        if known.any():
            self._rows()[slots[known]] = rows[known]
        if not known.all():
            self._append(rids[~known], rows[~known])
        self.changes += len(rids)

    def _append(self, rids: Rids, rows: Vector) -> None:
        first, end = len(self), len(self) + len(rids)
        if end > len(self._rids):
            self._rids = np.resize(self._rids, max(end, 2 * len(self._rids)))
        self._flat.add(rows)  # first: if memory runs out, nothing has changed
        self._rids[first:end] = rids
        self._slots.place(rids, np.arange(first, end, dtype=np.int64))

    def _remove(self, gone: Rids) -> None:
        """Fill the holes with the last rows, then truncate: no other row moves."""
        holes = np.unique(self._held(gone))
        if not holes.size:
            return
        end = len(self) - len(holes)
        self._slots.forget(self._rids[holes])
        low = holes[holes < end]
        last = np.setdiff1d(np.arange(end, len(self)), holes, assume_unique=True)
        rows = self._rows()
        rows[low], self._rids[low] = rows[last], self._rids[last]
        self._slots.place(self._rids[low], low)
        self._resize(end)
        self.changes += len(holes)

    def _resize(self, count: int) -> None:
        self._flat.codes.resize(count * self._flat.code_size)
        self._flat.ntotal = count

    def _rows(self) -> Vector:
        """View FAISS's own storage as a matrix. Valid until the next append."""
        if not len(self):
            return np.empty((0, self.dimensions), dtype=np.float32)
        flat: Vector = self._faiss.rev_swig_ptr(self._flat.get_xb(), len(self) * self.dimensions)
        return flat.reshape(len(self), self.dimensions)


def _unit(matrix: Vector) -> Vector:
    """Scale rows to unit length; in double precision, since squares of large and small floats exceed single."""
    squares = np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64)
    lengths = np.where(squares > 0, np.sqrt(squares), 1.0)
    return np.divide(matrix, lengths[:, np.newaxis]).astype(np.float32)


def _load_faiss() -> Any:  # noqa: ANN401 - a module
    """Import FAISS on first use: it is an optional extra, and slow to load."""
    try:
        return import_module("faiss")
    except ImportError as missing:
        raise SearchUnavailable("search by vectors needs FAISS: run pip install 'embedq[faiss]'") from missing
