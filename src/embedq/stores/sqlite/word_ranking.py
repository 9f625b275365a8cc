"""Rank records by the words of a query: BM25 over the words of their collection."""

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from embedq.policy.bm25 import rarest, weight
from embedq.policy.languages import without_stop_words, words_of
from embedq.stores.sqlite.word_tables import WordTables

MOST_RANKED = 20_000  # records that one query ranks, while a word alone may stand in millions

RECORDS = "SELECT records FROM embedq_tally WHERE collection = ?"
COUNT = "SELECT count(*) FROM (SELECT 1 FROM {table} WHERE {table} MATCH ? LIMIT ?)"
HOLDS = "SELECT count(*) FROM {table} WHERE {table} MATCH ? AND rowid = ?"

# The best records of those from a number on; a record itself is read only where a filter or a tenant must be looked at.
RANK = """
SELECT {table}.rowid, -bm25({table}) FROM {table} {joined}
WHERE {table} MATCH ? AND {table}.rowid >= ? {filters} ORDER BY bm25({table}), {table}.rowid LIMIT ?
"""
JOINED = "CROSS JOIN embedq_record x ON x.rid = {table}.rowid"

# The number from which on the newest matches begin.
NEWEST = "SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET ?"


class Narrowed(NamedTuple):
    """Conditions of a filter and a tenant, with their values."""

    filters: str
    values: Sequence[Any]


class Ranked(NamedTuple):
    """A record that holds words of the query."""

    rid: int
    score: float
    share: float  # of what the query's words weigh


def rank(db: sqlite3.Connection, collection: int, text: str, narrowed: Narrowed, k: int) -> list[Ranked]:
    """Rank the records of a collection that hold any of these words, best first."""
    tables, words = WordTables.of(db, collection), without_stop_words(words_of(text))
    if tables is None or not words:
        return []
    (records,) = db.execute(RECORDS, (collection,)).fetchone()
    search = _Search(db, tables.current, narrowed, k)
    matches = {word: search.count(word) for word in words}
    found = search.best(matches, records)
    total = sum(weight(records, count) for count in matches.values())
    says_little = bool(found) and len(words) > 1 and not search.holds_several(found[0][0], words)
    return [Ranked(rid, score, 0.0 if says_little else score / total) for rid, score in found]


@dataclass(frozen=True, slots=True)
class _Search:
    """A search in a table of words."""

    db: sqlite3.Connection
    table: str
    narrowed: Narrowed
    k: int

    def count(self, word: str) -> int:
        """Count the records that hold a word; of more than can be ranked, one more."""
        return int(self._execute(COUNT, (_any([word]), MOST_RANKED + 1)).fetchone()[0])

    def holds_several(self, rid: int, words: Sequence[str]) -> bool:
        """Say whether a record holds more than one of these words."""
        held = (self._execute(HOLDS, (_any([word]), rid)).fetchone()[0] for word in words)
        return sum(map(int, held)) > 1

    def best(self, matches: Mapping[str, int], records: int) -> list[tuple[int, float]]:
        """Find the best records. In a large collection they are chosen by the rarer words, and ranked by all.

        Common words weigh next to nothing, and it takes long to rank all that hold them. Records that hold no others
        are ranked where too few are found, and only the newest of them; with a filter all, since the newest may not
        match it.
        """
        words = list(matches)
        rare = words if records <= MOST_RANKED else rarest(matches, MOST_RANKED)
        if len(rare) == len(words):
            return self._rank(_any(words))
        found = {rid: score / 2 for rid, score in self._rank(_with_one_of(rare, words))} if rare else {}
        if len(found) < self.k:
            newest = 0 if self.narrowed.filters else self._newest(words)
            found |= dict(self._rank(_any(words), newest))
        return sorted(found.items(), key=lambda item: (-item[1], item[0]))[: self.k]

    def _rank(self, expression: str, first: int = 0) -> list[tuple[int, float]]:
        filters, values = self.narrowed
        return self._execute(RANK, (expression, first, *values, self.k), filters).fetchall()

    def _newest(self, words: Sequence[str]) -> int:
        row = self._execute(NEWEST, (_any(words), MOST_RANKED - 1)).fetchone()
        return 0 if row is None else int(row[0])

    def _execute(self, statement: str, values: Sequence[Any], filters: str = "") -> sqlite3.Cursor:
        joined = JOINED.format(table=self.table) if filters else ""
        return self.db.execute(statement.format(table=self.table, joined=joined, filters=filters), values)


def _any(words: Sequence[str]) -> str:
    """Write an expression that any of the words matches; each is quoted, so that none is read as syntax."""
    return " OR ".join('"' + word.replace('"', '""') + '"' for word in words)


def _with_one_of(rare: Sequence[str], words: Sequence[str]) -> str:
    """Write an expression that the rare words match and all words score, each twice."""
    common = [word for word in words if word not in rare]
    return f"({_any(rare)}) AND ({_any([*rare, *common, *common])})"
