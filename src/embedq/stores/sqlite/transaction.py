"""A write transaction and what is deferred to its end."""

import json
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager

# Remove the old texts from the word index: it must be given what it holds.
FORGET_WORDS = """
INSERT INTO embedq_words (embedq_words, rowid, text)
SELECT 'delete', e.value ->> 0, e.value ->> 1 FROM json_each(?) e
"""

# Put the current texts of live records into the word index.
INDEX_WORDS = """
INSERT INTO embedq_words (rowid, text)
SELECT x.rid, x.text FROM json_each(?) e CROSS JOIN embedq_record x ON x.rid = e.value WHERE x.valid_to IS NULL
"""

# The same for records that were inserted as one range.
INDEX_NEW_WORDS = """
INSERT INTO embedq_words (rowid, text)
SELECT rid, text FROM embedq_record WHERE rid BETWEEN ? AND ? AND valid_to IS NULL
"""

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
        self.words: dict[int, str | None] = {}  # record: what the word index held of it when the transaction began
        self.fresh: list[tuple[int, int]] = []  # ranges of records that are new in this transaction
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

    def remember_words(self, record: int, indexed: str | None) -> None:
        """Note that a record's text changes. Only the first note counts: the index is written once, at the end."""
        if not any(first <= record <= last for first, last in self.fresh):
            self.words.setdefault(record, indexed)

    def flush_words(self) -> None:
        """Write the word index: last, and in few statements, since each has a cost."""
        for first, last in self.fresh:
            self.db.execute(INDEX_NEW_WORDS, (first, last))
        if not self.words:
            return
        held = [(record, text) for record, text in self.words.items() if text is not None]
        if held:
            self.db.execute(FORGET_WORDS, (json.dumps(held),))
        self.db.execute(INDEX_WORDS, (ids(self.words),))

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
