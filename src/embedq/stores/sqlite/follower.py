"""Search indexes that follow the database by sequence number, one per collection and space."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from time import perf_counter

from embedq.model import Vector
from embedq.stores.sqlite import index_rows
from embedq.stores.sqlite.followed import Followed, advance
from embedq.stores.sqlite.index import FlatIndex
from embedq.stores.sqlite.index_file import Busy, Header, IndexFile, Misfit
from embedq.stores.sqlite.index_rows import IndexKey
from embedq.stores.sqlite.index_slots import Rids
from embedq.telemetry import Event, Telemetry


class Follower:
    """Answers searches from memory, never from data older than the search.

    All methods block: call them in threads. The database is authoritative; an index that cannot follow is rebuilt.
    """

    def __init__(self, open_connection: Callable[[], sqlite3.Connection], folder: Path, telemetry: Telemetry) -> None:
        """Follow through connections that may be used on any thread; save indexes in this folder."""
        self._open_connection = open_connection
        self._folder = folder
        self._telemetry = telemetry
        self._lock = Lock()  # guards the connection and everything followed
        self._connection: sqlite3.Connection | None = None
        self._version: int | None = None  # the data version that every index has seen
        self._followed: dict[IndexKey, Followed] = {}
        self._openings: dict[IndexKey, Lock] = {}

    def search(
        self, collection: int, space: int, vector: Vector, k: int, allowed: Rids | None = None
    ) -> list[tuple[int, float]]:
        """Find the k nearest with their cosines, best first, among `allowed` (distinct rids) if given."""
        index = self.catch_up(collection, space)
        if index is None:
            return []
        rids, scores = index.search(vector, k, allowed)
        return list(zip(rids.tolist(), scores.tolist(), strict=True))

    def catch_up(self, collection: int, space: int) -> FlatIndex | None:
        """Bring an index up to all that was committed before this call. None: there is nothing to search yet."""
        key = IndexKey(collection, space)
        while True:
            if key not in self._followed and not self._open(key):
                return None
            with self._lock:
                self._follow()
                if key in self._followed:
                    return self._followed[key].index

    def poke(self) -> None:
        """Follow now, so that the next search has less to do. Return at once if another thread already does."""
        if self._followed and self._lock.acquire(blocking=False):
            try:
                self._follow()
            finally:
                self._lock.release()

    def save_all(self, *, least: float = 0.0) -> None:
        """Save each index that changed since its last save by more than this share of its vectors."""
        for followed in list(self._followed.values()):
            if followed.index.changes - followed.saved_changes > least * len(followed.index):
                self._save(followed)

    def drop(self, collection: int) -> None:
        """Drop a collection's indexes and remove their files."""
        with self._lock:
            self._keep([followed for key, followed in self._followed.items() if key.collection != collection])
        for path in self._folder.glob(f"{collection}-*.index"):
            IndexFile(path).remove()

    def close(self) -> None:
        """Save what changed, and close the connection."""
        try:
            self.save_all()
        finally:
            with self._lock:
                self._followed = {}
                if self._connection:
                    self._connection.close()
                    self._connection = None

    def _open(self, key: IndexKey) -> bool:
        """Load or build an index on a separate connection: searches in other collections do not wait for it."""
        with self._openings.setdefault(key, Lock()):
            if key in self._followed:
                return True
            with closing(self._open_connection()) as db:
                followed = self._opened(db, key)
            if followed is None:
                return False
            with self._lock:
                self._followed[key] = followed
                self._version = None  # it may be some commits behind the others
            return True

    def _opened(self, db: sqlite3.Connection, key: IndexKey) -> Followed | None:
        dimensions = index_rows.dimensions(db, key)
        if dimensions is None:
            return None
        followed = self._loaded(db, key, dimensions)
        while followed is None or not advance(db, [followed]):
            followed = self._built(db, key, dimensions)
        return followed

    def _built(self, db: sqlite3.Connection, key: IndexKey, dimensions: int) -> Followed:
        began = perf_counter()
        followed = Followed(key, FlatIndex(dimensions), index_rows.state(db).last_seq)
        for rows in index_rows.vectors(db, key):
            followed.take([rid for rid, _ in rows], [blob for _, blob in rows], [])
        self._report(followed, "built", began)
        return followed

    def _loaded(self, db: sqlite3.Connection, key: IndexKey, dimensions: int) -> Followed | None:
        began, file = perf_counter(), self._file(key)
        try:
            header = file.header()
            if header is None:
                return None
            _check(db, header, key, dimensions)
            header, index = file.load()
            _check(db, header, key, dimensions)  # another process may have replaced it in the meantime
        except Misfit as misfit:
            self._telemetry.emit(Event.INDEX, level="warning", act="refused", index=str(key), reason=str(misfit))
            return None
        followed = Followed(key, index, header.mark)
        self._report(followed, "loaded", began)
        return followed

    def _follow(self) -> None:
        """Bring every index up to date. Takes microseconds if nothing was committed since."""
        if self._connection is None:
            self._connection = self._open_connection()
        version = index_rows.data_version(self._connection)
        if version == self._version:
            return
        alive = index_rows.living(self._connection)
        self._keep([followed for key, followed in self._followed.items() if key.collection in alive])
        self._keep(advance(self._connection, list(self._followed.values())))
        self._version = version
        self._report_unreadable()

    def _keep(self, kept: Sequence[Followed]) -> None:
        keys = {followed.key for followed in kept}
        for key in self._followed.keys() - keys:
            self._telemetry.emit(Event.INDEX, level="debug", act="dropped", index=str(key))
        self._followed = {followed.key: followed for followed in kept}

    def _report_unreadable(self) -> None:
        for followed in self._followed.values():
            if rids := followed.unreadable:
                facts = {"index": str(followed.key), "vectors": len(rids), "records": rids[:10]}
                self._telemetry.emit(Event.INDEX, level="warning", act="left_out", reason="wrong length", **facts)
                followed.unreadable = []

    def _save(self, followed: Followed) -> None:
        began, index = perf_counter(), followed.index
        with self._lock:
            mark, changes, count = followed.mark, index.changes, len(index)
        with closing(self._open_connection()) as db:
            identity, seen = index_rows.state(db).identity, tuple(index_rows.witnesses(db, mark))
        facts = {**followed.key._asdict(), "identity": identity, "dimensions": index.dimensions}
        header = Header(**facts, mark=mark, count=count, witnesses=seen)
        try:
            written = self._file(followed.key).save(header, index, changes)
        except Misfit as misfit:
            level, key = "debug" if isinstance(misfit, Busy) else "warning", str(followed.key)
            self._telemetry.emit(Event.INDEX, level=level, act="not_saved", index=key, reason=str(misfit))
            return
        followed.saved_changes = changes
        if written:
            self._report(followed, "saved", began)

    def _file(self, key: IndexKey) -> IndexFile:
        return IndexFile(self._folder / f"{key}.index")

    def _report(self, followed: Followed, act: str, began: float) -> None:
        vectors, seconds = len(followed.index), round(perf_counter() - began, 3)
        self._telemetry.emit(Event.INDEX, act=act, index=str(followed.key), vectors=vectors, seconds=seconds)


def _check(db: sqlite3.Connection, header: Header, key: IndexKey, dimensions: int) -> None:
    """Raise Misfit unless a saved index can follow this database from its mark."""
    state = index_rows.state(db)
    if not state.identity or header.identity != state.identity:
        raise Misfit("it belongs to another database")
    if (header.collection, header.space, header.dimensions) != (*key, dimensions):
        raise Misfit("it holds another collection, or vectors of other dimensions")
    if header.mark > state.last_seq or not index_rows.confirmed(db, header.witnesses):
        raise Misfit("the database is not the one it was built from: restored from a backup?")
    if header.mark < state.forgotten_seq:
        raise Misfit("deletions since then are forgotten")
