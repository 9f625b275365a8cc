"""A write transaction and what is deferred to its end."""

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

from embedq.stores.sqlite.word_tables import WordTables

# Add to a collection's sums.
TALLY = """
UPDATE embedq_tally SET open = open + ?, completed = completed + ?, failed = failed + ?, cancelled = cancelled + ?,
  records = records + ?, missing = missing + ? WHERE collection = ?
"""


class Transaction:
    """One BEGIN IMMEDIATE. Several callers may share it; each has its own savepoint."""

    __slots__ = ("db", "dead_letters", "fresh", "is_awaited", "now", "stored", "wakes", "words")

    def __init__(self, db: sqlite3.Connection, now: int, *, is_awaited: Callable[[], bool] = bool) -> None:
        """Use this connection, at this moment; `is_awaited` says whether a put waits for the end of it."""
        self.db = db
        self.now = now
        self.is_awaited = is_awaited
        # By record: its collection, and the text that its words were of at the beginning.
        self.words: dict[int, tuple[int, str | None]] = {}
        self.fresh: list[tuple[int, int, int]] = []  # new in this transaction: collection, first and last record
        self.stored: list[tuple[int, float]] = []  # number of vectors, with their mean seconds
        self.dead_letters: list[tuple[int, str]] = []  # not reported by a worker: job, and why
        self.wakes = False  # something became ready

    def mark(self) -> tuple[int, int, int]:
        """Return how much is noted for the end."""
        return len(self.fresh), len(self.stored), len(self.dead_letters)

    def forget_since(self, mark: tuple[int, int, int]) -> None:
        """Discard what was noted by work that is rolled back."""
        fresh, stored, dead_letters = mark
        del self.fresh[fresh:], self.stored[stored:], self.dead_letters[dead_letters:]

    @property
    def has_words(self) -> bool:
        """Whether words are noted for the end: until then the tables of words are not what the records say."""
        return bool(self.words or self.fresh)

    def remember_words(self, collection: int, record: int, indexed: str | None) -> None:
        """Note that a record's text changes. Only the first note counts: its words are written once, at the end."""
        if not any(first <= record <= last for _, first, last in self.fresh):
            self.words.setdefault(record, (collection, indexed))

    def flush_words(self) -> None:
        """Write the tables of words: last, and in few statements, since each has a cost."""
        held: dict[int, dict[int, str | None]] = defaultdict(dict)
        for record, (collection, text) in self.words.items():
            held[collection][record] = text
        for collection in {*held, *(of for of, _, _ in self.fresh)}:
            tables = WordTables.of(self.db, collection)
            if tables is None:
                continue  # dropped since
            for first, last in [(first, last) for of, first, last in self.fresh if of == collection]:
                tables.index_new(self.db, first, last)
            tables.index(self.db, held[collection])

    def tally(
        self,
        collection: int,
        *,
        open_: int = 0,
        completed: int = 0,
        failed: int = 0,
        cancelled: int = 0,
        records: int = 0,
        missing: int = 0,
    ) -> None:
        """Add to a collection's sums."""
        if open_ or completed or failed or cancelled or records or missing:
            self.db.execute(TALLY, (open_, completed, failed, cancelled, records, missing, collection))

    @contextmanager
    def savepoint(self, name: str) -> Iterator[None]:
        """Roll back what happens inside if it raises."""
        self.db.execute(f"SAVEPOINT {name}")
        try:
            yield
        except BaseException:
            self.db.execute(f"ROLLBACK TO {name}")
            self.db.execute(f"RELEASE {name}")
            raise
        self.db.execute(f"RELEASE {name}")


def names(wanted: Iterable[str]) -> str:
    """Write record ids as the JSON list that our statements read, each once: a repeated one would count twice."""
    return json.dumps(list(dict.fromkeys(wanted)), ensure_ascii=False)


def ids(numbers: Collection[int]) -> str:
    """Write row numbers as the JSON list that our statements read."""
    return "[" + ",".join(map(str, numbers)) + "]"
