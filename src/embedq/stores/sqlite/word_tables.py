"""The tables of words: one per collection, so that what a word weighs there depends on no other collection."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from embedq.errors import Invalid
from embedq.policy.languages import PLAIN

TOKENIZERS = {"english": "porter unicode61", PLAIN: "unicode61"}  # SQLite has no other stemmer

CREATE = """
CREATE VIRTUAL TABLE {table} USING fts5 (
  text, content = 'embedq_record', content_rowid = 'rid', tokenize = '{tokenizer}')
"""
OF = "SELECT id, words, words_filled FROM embedq_collection WHERE id = ? AND name IS NOT NULL"
UNFINISHED = "SELECT id, words, words_filled FROM embedq_collection WHERE words_filled IS NOT NULL AND name IS NOT NULL"
FILLED = "UPDATE embedq_collection SET words_filled = ? WHERE id = ?"
SWITCH = "UPDATE embedq_collection SET words = words + 1, words_filled = NULL WHERE id = ?"

# Remove the old texts from a table: it must be given what it holds.
FORGET = """
INSERT INTO {table} ({table}, rowid, text) SELECT 'delete', e.value ->> 0, e.value ->> 1 FROM json_each(?) e
"""

# Put the current texts of live records into a table.
INDEX = """
INSERT INTO {table} (rowid, text)
SELECT x.rid, x.text FROM json_each(?) e CROSS JOIN embedq_record x ON x.rid = e.value WHERE x.valid_to IS NULL
"""

# The same for a range of records, without the index by which the collection's other records would be read too.
INDEX_RANGE = """
INSERT INTO {table} (rowid, text)
SELECT rid, text FROM embedq_record NOT INDEXED
WHERE rid BETWEEN ? AND ? AND collection = ? AND valid_to IS NULL ORDER BY rid
"""

# The same for all records of a collection; ordered by number first, since their texts would not fit into memory.
INDEX_ALL = """
INSERT INTO {table} (rowid, text)
SELECT x.rid, x.text FROM (SELECT rid FROM embedq_record WHERE collection = ? ORDER BY rid LIMIT -1) e
CROSS JOIN embedq_record x ON x.rid = e.rid WHERE x.valid_to IS NULL
"""
END_OF_STEP = "SELECT max(rid) FROM (SELECT rid FROM embedq_record WHERE rid > ? ORDER BY rid LIMIT ?)"

# Collections of a file that holds records.
WITH_WORDS = """
SELECT id, language FROM embedq_collection
WHERE name IS NOT NULL AND NOT EXISTS (SELECT 1 FROM embedq_control WHERE name = 'queue_alone')
"""


@dataclass(frozen=True, slots=True)
class WordTables:
    """The tables of a collection's words."""

    collection: int
    generation: int
    filled: int | None  # the last record that the next table has; None: there is no next table

    @classmethod
    def of(cls, db: sqlite3.Connection, collection: int) -> Self | None:
        """Find those of a collection; a dropped one has none."""
        row = db.execute(OF, (collection,)).fetchone()
        return None if row is None else cls(*row)

    @property
    def current(self) -> str:
        """Name the table that serves searches."""
        return f"embedq_words_{self.collection}_{self.generation}"

    @property
    def next(self) -> str:
        """Name the table that is filled after a change of language."""
        return f"embedq_words_{self.collection}_{self.generation + 1}"

    def index_new(self, db: sqlite3.Connection, first: int, last: int) -> None:
        """Index records that were inserted as one range; the next table comes to them in its turn."""
        db.execute(INDEX_RANGE.format(table=self.current), (first, last, self.collection))

    def index(self, db: sqlite3.Connection, held: Mapping[int, str | None]) -> None:
        """Index the texts of these records anew; `held` is what the tables have of them."""
        _index(db, self.current, held)
        if self.filled is not None:
            _index(db, self.next, {record: text for record, text in held.items() if record <= self.filled})

    def change(self, db: sqlite3.Connection, language: str) -> None:
        """Begin the next table, for another language; one that was begun before is given up."""
        db.execute(f"DROP TABLE IF EXISTS {self.next}")
        _create(db, self.next, language)
        db.execute(FILLED, (0, self.collection))

    def fill(self, db: sqlite3.Connection, limit: int) -> None:
        """Take the next table on by some records; when none is left, it becomes the current one."""
        (last,) = db.execute(END_OF_STEP, (self.filled, limit)).fetchone()
        if last is None:
            self.switch(db)
            return
        db.execute(INDEX_RANGE.format(table=self.next), ((self.filled or 0) + 1, last, self.collection))
        db.execute(FILLED, (last, self.collection))

    def switch(self, db: sqlite3.Connection) -> None:
        """Let the next table serve, and drop the current one."""
        db.execute(SWITCH, (self.collection,))
        db.execute(f"DROP TABLE {self.current}")

    def drop(self, db: sqlite3.Connection) -> None:
        """Drop them; a file that holds no records has none."""
        for table in (self.current, self.next):
            db.execute(f"DROP TABLE IF EXISTS {table}")


def check_language(language: str) -> None:
    """Refuse a language that SQLite cannot stem."""
    if language not in TOKENIZERS:
        raise Invalid(
            f"language {language!r}: SQLite stems english alone; write english, or {PLAIN} to compare words as they "
            f"are written, or keep the records in PostgreSQL, which stems {language}"
        )


def create(db: sqlite3.Connection, collection: int, language: str) -> WordTables:
    """Create the first table of a new collection."""
    made = WordTables(collection, 1, None)
    _create(db, made.current, language)
    return made


def create_all(db: sqlite3.Connection) -> None:
    """Create and fill the tables of a file whose words were all in one."""
    for collection, language in db.execute(WITH_WORDS).fetchall():
        made = create(db, collection, language)
        db.execute(INDEX_ALL.format(table=made.current), (collection,))


def unfinished(db: sqlite3.Connection) -> WordTables | None:
    """Find a collection whose next table is being filled."""
    row = db.execute(UNFINISHED).fetchone()
    return None if row is None else WordTables(*row)


def _create(db: sqlite3.Connection, table: str, language: str) -> None:
    db.execute(CREATE.format(table=table, tokenizer=TOKENIZERS[language]))


def _index(db: sqlite3.Connection, table: str, held: Mapping[int, str | None]) -> None:
    records: Sequence[int] = sorted(held)  # FTS5 writes a segment whenever a number is lower than the one before
    gone = [(record, held[record]) for record in records if held[record] is not None]
    if gone:
        db.execute(FORGET.format(table=table), (json.dumps(gone),))
    if records:
        db.execute(INDEX.format(table=table), (json.dumps(records),))
