"""An event loop on a thread of its own, for callers that have none or run another."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextvars import copy_context
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from embedq.errors import StoreError
from embedq.ports.caller import CALLERS_THREAD

P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[[], Any]


class Portal:
    """Runs coroutines for callers of any thread."""

    def __init__(self) -> None:
        """Start the thread."""
        self.process = os.getpid()
        started: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=_serve, args=(started,), name="embedq-portal", daemon=True)
        self._thread.start()
        self._loop = started.result()
        self._closed = False
        self._gate = threading.Lock()  # what is begun is begun before the loop is told to stop

    def run(self, act: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a coroutine on the portal's thread, and wait for its answer."""
        self._check()
        caller = _Caller()
        context = copy_context()
        context.run(CALLERS_THREAD.set, caller.do)
        with self._gate:
            self._check_open()
            task = context.run(asyncio.run_coroutine_threadsafe, act(*args, **kwargs), self._loop)
        return caller.wait_for(task)

    def close(self) -> None:
        """End the thread and its loop."""
        with self._gate:
            if not self._closed:
                self._closed = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _check(self) -> None:
        if self.process != os.getpid():
            raise StoreError(
                f"this was opened in process {self.process}, of which this is a fork: close it before the fork, and "
                "call embedq.connect after the fork, in each process (with gunicorn --preload in post_fork)"
            )
        if threading.current_thread() is self._thread:
            raise StoreError("this is the thread that answers, and it cannot wait for itself: call from another one")

    def _check_open(self) -> None:
        if self._closed or not self._thread.is_alive():
            raise StoreError("the store is closed: open it again")


class _Caller:
    """A thread that waits for its answer, and meanwhile does what must be done on it."""

    def __init__(self) -> None:
        """Begin with nothing to do."""
        self._inbox: SimpleQueue[Work | None] = SimpleQueue()

    def wait_for(self, task: Future[T]) -> T:
        """Wait; an interrupt cancels the task."""
        task.add_done_callback(lambda _: self._inbox.put(None))
        try:
            while (work := self._inbox.get()) is not None:
                work()
        except BaseException:
            task.cancel()
            raise
        try:
            return task.result()
        except CancelledError:
            raise StoreError("the store was closed before it answered: open it again") from None

    async def do(self, work: Callable[[], T]) -> T:
        """Do this on the caller's thread; what it raises is raised here, but an interrupt is the caller's."""
        done: Future[T] = Future()
        self._inbox.put(lambda: _fulfil(done, work))
        return await asyncio.wrap_future(done)


def _fulfil(done: Future[T], work: Callable[[], T]) -> None:
    if not done.set_running_or_notify_cancel():
        return
    try:
        done.set_result(work())
    except Exception as error:  # noqa: BLE001 the answer to whoever asked for it
        done.set_exception(error)


def _serve(started: Future[asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        started.set_result(loop)
        loop.run_forever()
