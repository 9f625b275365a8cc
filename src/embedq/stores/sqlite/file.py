"""One open database file: its writer, its readers, its watcher, its search index."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self, TypeVar

from embedq.errors import StoreUnusable
from embedq.model import Vector
from embedq.stores.sqlite import callers
from embedq.stores.sqlite.connection import connect, file_identity, speaking
from embedq.stores.sqlite.follower import Follower
from embedq.stores.sqlite.forks import note_closed, note_open, refuse_inherited
from embedq.stores.sqlite.index_slots import Rids
from embedq.stores.sqlite.looking import require
from embedq.stores.sqlite.private import create_database
from embedq.stores.sqlite.readers import Readers
from embedq.stores.sqlite.schema import migrate
from embedq.stores.sqlite.transaction import Transaction
from embedq.stores.sqlite.watcher import Watcher
from embedq.stores.sqlite.writer import Work, Writer
from embedq.stores.wake import Wake
from embedq.telemetry import Event, Telemetry

T = TypeVar("T")
UNSAVED = 0.1  # the share of an index that may change before it is saved again
SEARCHES = 4  # at a time


class File:
    """What the two parts of the store, corpus and queue, share."""

    def __init__(self, path: Path, telemetry: Telemetry, *, make: bool) -> None:
        """Open the file, install or upgrade its schema, start its threads; without `make` it is only checked."""
        self.path = path
        self.telemetry = telemetry
        refuse_inherited(path)
        (install if make else require)(path)
        self._noted = note_open(path)
        self.wake = Wake()
        self._reported = ""
        self.follower = Follower(lambda: connect(path, read_only=True), Path(f"{path}.index"), telemetry)
        self._searches = ThreadPoolExecutor(SEARCHES, thread_name_prefix="embedq-search")
        self._saved: Future[None] = Future()
        self._saved.set_result(None)
        self._writer = Writer(path, committed=self._committed)
        self._readers = Readers(path)
        self._watcher = Watcher(path, self._changed, self._trouble)

    @classmethod
    async def open(cls, path: Path, telemetry: Telemetry, *, make: bool) -> Self:
        """Open the file off the event loop; a caller that is cancelled meanwhile leaves nothing open."""
        opening = asyncio.get_running_loop().run_in_executor(None, lambda: cls(path.absolute(), telemetry, make=make))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.wait([opening])
            if opening.exception() is None:
                await opening.result().close()
            raise

    async def write(self, work: Work[T], *, bulk: bool = False) -> T:
        """Do this work in a transaction that is durable on return; `bulk` work lets single puts go first."""
        return await self._writer.run(work, bulk=bulk)

    async def write_on(self, connection: object, work: Work[T]) -> T:
        """Do this work in the caller's transaction, on the caller's connection and thread."""
        return await callers.write_on(self.path, connection, work)

    async def read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        """Read in one snapshot, concurrently with the writer."""
        return await self._readers.run(read)

    async def nearest(
        self, index: tuple[int, int], vector: Vector, k: int, allowed: Rids | None
    ) -> list[tuple[int, float]]:
        """Search the index of a collection and space; save it afterwards if it has changed enough."""

        def search() -> list[tuple[int, float]]:
            with speaking(self.path):
                return self.follower.search(*index, vector, k, allowed)

        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._searches, search)
        if self._saved.done():
            self._saved = self._searches.submit(self.follower.save_all, least=UNSAVED)
        return found

    async def check(self) -> None:
        """Return, or raise a StoreError that says why the file cannot be used."""
        identity = file_identity(self.path)
        found = await self.read(lambda db: db.execute("SELECT count(*) FROM embedq_control").fetchone())
        if not found or identity != file_identity(self.path):
            raise StoreUnusable(f"{self.path} was replaced by another file: restart")

    async def close(self) -> None:
        """Finish accepted work, save the search index, and close files and threads."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._watcher.close()
        self._writer.close()
        self._readers.close()
        self._searches.shutdown(wait=True)
        self.follower.close()
        note_closed(self._noted)

    def _committed(self, transaction: Transaction) -> None:
        """Report a commit, on the writer's thread."""
        if transaction.wakes:
            self.wake.call()
        for job, reason in transaction.dead_letters:
            self.telemetry.emit(Event.JOB_FAILED, level="error", jobId=str(job), reason=reason)
        for count, seconds in transaction.stored:
            self.telemetry.emit(Event.STORED, level="debug", count=count, seconds=seconds)

    def _changed(self) -> None:
        """Handle a commit of some process, maybe this one; called on the watcher's thread."""
        self.wake.call()
        self.follower.poke()
        self._reported = ""

    def _trouble(self, error: Exception) -> None:
        """Report that the watcher failed; once for the same error in a row."""
        message = f"{type(error).__name__}: {error}"
        if message != self._reported:
            self._reported = message
            self.telemetry.emit(Event.STORE_TROUBLE, level="error", act="watch", error=message)


def install(path: Path) -> None:
    """Create the file if it does not exist, and bring its schema to this version."""
    if not path.parent.is_dir():
        raise StoreUnusable(f"the folder {path.parent} does not exist: create it, or change EMBEDQ_URL")
    if path.is_dir():
        raise StoreUnusable(f"{path} is a folder: name a file in EMBEDQ_URL")
    create_database(path)
    db = connect(path, create=True)
    try:
        migrate(db, path)
    finally:
        db.close()
