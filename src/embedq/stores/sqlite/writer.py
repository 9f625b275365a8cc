"""The one writing thread of this process. Callers share its commits."""

import asyncio
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from time import perf_counter
from typing import Any, TypeVar

from embedq.errors import StoreError, StoreUnusable
from embedq.stores.sqlite.checkpoint import Checkpointer
from embedq.stores.sqlite.connection import UNTAKEN, connect, file_identity, is_grave, translated
from embedq.stores.sqlite.gate import Gate
from embedq.stores.sqlite.moments import clock
from embedq.stores.sqlite.transaction import Transaction

T = TypeVar("T")
Work = Callable[[Transaction], T]
MOST_PER_COMMIT = 256
BULK_SECONDS = 0.002  # bulk work of up to this duration shares a commit
LEARNING = 0.1  # weight of the newest call in the average duration
IDLE = 1.0  # seconds without work after which the log file is cut short


@dataclass(slots=True)
class _Call:
    """A caller's work and where its answer goes."""

    work: Work[Any]
    bulk: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    answer: Any = None
    error: BaseException | None = None


class Writer:
    """Runs callers' work in groups: one transaction, one durable commit, an answer each."""

    def __init__(self, path: Path, *, committed: Callable[[Transaction], None]) -> None:
        """Start the thread; `committed` is called on it with each transaction."""
        self._path = path
        self._identity = file_identity(path)
        self._db = connect(path)
        self._gate = Gate(path)
        self._checkpointer = Checkpointer(self._db)
        self._committed = committed
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._waiting: list[_Call] = []  # taken from the queue, and not served yet
        self._bulk_is_next = False
        self._bulk_call = BULK_SECONDS  # recent duration of a bulk call
        self._open = True  # until `close` has been called
        self._closed = False
        self._closing = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="embedq-writer", daemon=True)
        self._thread.start()

    async def run(self, work: Work[T], *, bulk: bool = False) -> T:
        """Do this work in a write transaction; return when it is durable. Callable from any event loop."""
        loop = asyncio.get_running_loop()
        call = _Call(work, bulk, loop, loop.create_future())
        with self._closing:  # a call that is queued after the last one would never be answered
            if self._closed:
                raise StoreError("the store is closed: open it again")
            self._calls.put(call)
        answer: T = await call.future  # a cancelled caller misses the answer; the work is done anyway
        return answer

    def close(self) -> None:
        """Finish accepted work, then stop."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._calls.put(None)
        self._thread.join()

    def _serve(self) -> None:
        while self._open or self._waiting:
            group = self._next_group()
            if group:
                self._serve_group(group)
        self._checkpointer.truncate()
        self._db.close()
        self._gate.close()

    def _next_group(self) -> list[_Call]:
        """Wait for calls and choose which ones share the next commit.

        Single writes share one. Bulk work shares one as far as it is quick, so that no call waits long for it. The two
        kinds take turns.
        """
        self._gather()
        prompt = [call for call in self._waiting if not call.bulk]
        bulk = [call for call in self._waiting if call.bulk]
        self._bulk_is_next = bool(bulk) and (self._bulk_is_next or not prompt)
        most = max(1, int(BULK_SECONDS / self._bulk_call))
        group = bulk[:most] if self._bulk_is_next else prompt[:MOST_PER_COMMIT]
        self._waiting = [*prompt, *bulk[most:]] if self._bulk_is_next else [*prompt[MOST_PER_COMMIT:], *bulk]
        self._bulk_is_next = not self._bulk_is_next
        return group

    def _gather(self) -> None:
        """Take all waiting calls; if there are none, wait for one."""
        if not self._waiting:
            try:
                self._accept(self._calls.get(timeout=IDLE if self._checkpointer.has_work else None))
            except Empty:
                self._checkpointer.truncate()
        self._accept_all()

    def _accept_all(self) -> None:
        with suppress(Empty):
            while self._open:
                self._accept(self._calls.get_nowait())

    def _accept(self, call: _Call | None) -> None:
        if call is None:
            self._open = False
        else:
            self._waiting.append(call)

    def _serve_group(self, group: Sequence[_Call]) -> None:
        """Serve a group. Whatever fails, every caller gets an answer and the thread continues."""
        self._gate.enter(bulk=all(call.bulk for call in group))
        before = self._db.total_changes
        try:
            committed = self._try(group)
            _deliver(group)
            if committed is not None:
                self._committed(committed)
            if self._db.total_changes != before:  # a lease that found nothing needs no checkpoint
                self._checkpointer.after_commit(is_awaited=self._is_awaited)
        except Exception:  # noqa: BLE001 a service loop: the answers are delivered, and no caller is left to report to
            return
        finally:
            self._gate.leave()

    def _is_awaited(self) -> bool:
        """Say whether a single write waits, here or at the gate."""
        self._accept_all()
        return any(not call.bulk for call in self._waiting) or self._gate.is_awaited()

    def _try(self, group: Sequence[_Call]) -> Transaction | None:
        try:
            return self._commit(group)
        except Exception as error:  # noqa: BLE001 a service loop
            self._undo()
            for call in group:
                call.error = call.error or StoreError(f"{self._path}: {type(error).__name__}: {error}")
            return None

    def _commit(self, group: Sequence[_Call]) -> Transaction | None:
        """Do the group's work in one transaction. A failing call rolls back its own part, a failing commit all."""
        try:
            if file_identity(self._path) != self._identity:
                raise StoreUnusable(f"{self._path} was replaced by another file: nothing more is written; restart")
            self._db.execute("BEGIN IMMEDIATE")
            transaction = Transaction(self._db, clock(), is_awaited=self._is_awaited)
            began = perf_counter()
            for call in group:
                _perform(transaction, call, self._path, alone=len(group) == 1)
            if group[0].bulk:
                self._bulk_call += LEARNING * ((perf_counter() - began) / len(group) - self._bulk_call)
            if not self._db.in_transaction:
                return None  # the only caller's work was rolled back
            transaction.flush_words()
            self._db.execute("COMMIT")
        except (sqlite3.Error, StoreError) as error:
            self._undo()
            known = translated(error, self._path) if isinstance(error, sqlite3.Error) else error
            for call in group:
                call.error = call.error or known
            return None
        return transaction

    def _undo(self) -> None:
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")


def _perform(transaction: Transaction, call: _Call, path: Path, *, alone: bool) -> None:
    """Do one caller's work; what it raises is its own, unless the database itself failed."""
    mark = transaction.mark()
    try:
        if alone:
            call.answer = call.work(transaction)
            return
        with transaction.savepoint("caller"):
            call.answer = call.work(transaction)
    except Exception as error:
        if isinstance(error, sqlite3.Error) and (is_grave(error) or not transaction.db.in_transaction):
            raise
        transaction.forget_since(mark)
        call.error = translated(error, path) if isinstance(error, (sqlite3.Error, *UNTAKEN)) else error
        if alone:
            transaction.db.execute("ROLLBACK")


def _deliver(group: Sequence[_Call]) -> None:
    """Wake each event loop once for all of its callers."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Call]] = defaultdict(list)
    for call in group:
        by_loop[call.loop].append(call)
    for loop, calls in by_loop.items():
        try:
            loop.call_soon_threadsafe(_answer, calls)
        except RuntimeError:  # the caller's loop has ended: no caller waits
            continue


def _answer(calls: Sequence[_Call]) -> None:
    for call in calls:
        if call.future.done():
            continue
        if call.error is None:
            call.future.set_result(call.answer)
        else:
            call.future.set_exception(call.error)
