"""Threads that share one queue of model work, so that all callers together use each core once."""

import contextlib
import itertools
import os
import queue
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

_NICENESS = 2  # the event loop and the database go first; a higher value would starve the model
_URGENT, _ORDINARY, _LAST = 0, 1, 2

_Task = tuple[int, int, Callable[[], None] | None]  # rank, number, work; None: end the thread


def cores() -> int:
    """Say how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class ModelThreads:
    """One thread per core; urgent work first, otherwise in order of arrival."""

    def __init__(self, threads: int | None = None) -> None:
        """Start the threads. They do not keep the process alive."""
        self.size = threads or cores()
        self._tasks: queue.PriorityQueue[_Task] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._threads = [
            threading.Thread(target=self._work, name=f"embedq-model-{number}", daemon=True)
            for number in range(self.size)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[..., T], *arguments: Any, urgent: bool = False) -> "Future[T]":  # noqa: ANN401 - handed on
        """Queue a piece of work; it can be cancelled until it starts."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(work(*arguments))
            except BaseException as error:  # noqa: BLE001 - passed to the waiter of the future
                future.set_exception(error)

        self._tasks.put((_URGENT if urgent else _ORDINARY, next(self._numbers), run))
        return future

    def stop(self) -> None:
        """Finish what is queued, then end the threads and wait for them."""
        for _ in self._threads:
            self._tasks.put((_LAST, next(self._numbers), None))
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        _yield_to_others()
        while (run := self._tasks.get()[2]) is not None:
            run()


def _yield_to_others() -> None:
    # Linux keeps a niceness per thread; elsewhere it would slow the whole process.
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            thread = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICENESS)
