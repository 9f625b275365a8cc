"""The lock of an index: many searches at once, or one change."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Lock


class Turns:
    """Many readers or one writer. A waiting writer blocks new readers, so busy searches cannot starve it."""

    def __init__(self) -> None:
        """Start unlocked."""
        self._entry = Lock()
        self._left = Condition(Lock())
        self._readers = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold it together with other readers. Not reentrant: a writer between the two would deadlock."""
        with self._entry, self._left:
            self._readers += 1
        try:
            yield
        finally:
            with self._left:
                self._readers -= 1
                self._left.notify()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold it alone."""
        with self._entry, self._left:
            self._left.wait_for(lambda: self._readers == 0)
            yield
