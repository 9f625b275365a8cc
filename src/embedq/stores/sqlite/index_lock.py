"""Who may touch an index now: many searches at once, or one change."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition, Lock


class Turns:
    """Many readers or one writer. A waiting writer lets no new reader in, so busy searches cannot hold it off."""

    def __init__(self) -> None:
        """Start with nobody inside."""
        self._door = Lock()
        self._left = Condition(Lock())
        self._readers = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Be inside together with other readers. Not to be nested: a writer between the two would wait for ever."""
        with self._door, self._left:
            self._readers += 1
        try:
            yield
        finally:
            with self._left:
                self._readers -= 1
                self._left.notify()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Be inside alone."""
        with self._door, self._left:
            self._left.wait_for(lambda: self._readers == 0)
            yield
