"""An index that follows the vector table, and the scan that advances several of them."""

import sqlite3
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from embedq.stores.sqlite import index_rows
from embedq.stores.sqlite.index import FlatIndex
from embedq.stores.sqlite.index_rows import Change, IndexKey
from embedq.stores.sqlite.index_slots import Rids


class Followed:
    """An index and the position up to which it has followed."""

    def __init__(self, key: IndexKey, index: FlatIndex, mark: int) -> None:
        """Start with an index that contains every change up to the seq `mark`, just loaded or about to be filled."""
        self.key = key
        self.index = index
        self.mark = mark
        self.saved_changes = index.changes  # the index's change count when it was last saved
        self.unreadable: list[int] = []  # rids whose vectors have another length, not reported yet

    def take(self, rids: Sequence[int], blobs: Sequence[bytes], gone: Sequence[int]) -> None:
        """Apply changes. A vector of another length cannot be compared with the others: it counts as removed."""
        width = 4 * self.index.dimensions
        bad = [rid for rid, blob in zip(rids, blobs, strict=True) if len(blob) != width]
        if bad:
            self.unreadable += bad
            gone = [*gone, *bad]
            fit = [(rid, blob) for rid, blob in zip(rids, blobs, strict=True) if len(blob) == width]
            rids, blobs = [rid for rid, _ in fit], [blob for _, blob in fit]
        if rids or gone:
            self.index.apply(_array(rids), index_rows.matrix_of(blobs, self.index.dimensions), _array(gone))


def advance(db: sqlite3.Connection, followed: list[Followed]) -> list[Followed]:
    """Apply all that was committed before this call; return the indexes that could follow."""
    goal = index_rows.state(db).last_seq  # fixed, so that a busy writer cannot delay a search indefinitely
    while followed and (mark := min(one.mark for one in followed)) < goal:
        rows = index_rows.changes(db, mark, sorted({one.key.collection for one in followed}))
        forgotten = index_rows.state(db).forgotten_seq  # after the rows: a tombstone may have been removed just before
        followed = [one for one in followed if one.mark >= forgotten]
        _dispatch(rows, followed)
        for one in followed:
            one.mark = max(one.mark, rows[-1].seq if rows else goal)
    return followed


def _dispatch(rows: list[Change], followed: list[Followed]) -> None:
    """Pass each row to its index. A row is its record's current state, so applying it twice is harmless.

    A tombstone goes to all indexes of its space: the record that has its collection may be purged.
    """
    gone: defaultdict[int, list[int]] = defaultdict(list)
    stored: defaultdict[IndexKey, list[tuple[int, bytes]]] = defaultdict(list)
    for row in rows:
        if row.gone:
            gone[row.space].append(row.rid)
        elif row.collection is not None and row.embedding is not None:
            stored[IndexKey(row.collection, row.space)].append((row.rid, row.embedding))
    for one in followed:
        mine = stored[one.key]
        one.take([rid for rid, _ in mine], [blob for _, blob in mine], gone[one.key.space])


def _array(rids: Sequence[int]) -> Rids:
    return np.array(rids, dtype=np.int64)
