"""Find records: which ones are allowed, which match words, and build the hits."""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedq.model import Hit, Query, RecordId
from embedq.stores.columns import check_space
from embedq.stores.sqlite.collections import Found, find
from embedq.stores.sqlite.filtering import condition

MOST_WORDS = 64
COLUMNS = {False: "x.text, x.attributes", True: "'', '{}'"}  # by whether hits are bare

SPACE = "SELECT provider, model, asked, version FROM embedq_space WHERE id = ?"

# The records that a filter and a tenant allow.
ALLOWED = "SELECT x.rid FROM embedq_record x WHERE x.collection = ? AND x.valid_to IS NULL {filters} ORDER BY x.rid"

# Records by words, best first.
WORDS = """
SELECT x.id, -bm25(embedq_words), {columns} FROM embedq_words
CROSS JOIN embedq_record x ON x.rid = embedq_words.rowid
WHERE embedq_words MATCH ? AND x.collection = ? AND x.valid_to IS NULL {filters}
ORDER BY bm25(embedq_words), x.rid LIMIT ?
"""

# What is shown of the records that were found.
SHOWN = """
SELECT x.rid, x.id, {columns}, v.hash <> x.hash FROM json_each(?) e
CROSS JOIN embedq_record x ON x.rid = e.value JOIN embedq_vector v ON v.record = x.rid AND v.space = ?
WHERE x.valid_to IS NULL
"""


def allowed(db: sqlite3.Connection, name: str, query: Query) -> tuple[Found, NDArray[np.int64] | None]:
    """List the records that filter and tenant allow; None: all of the collection."""
    collection = find(db, name)
    check_space(query.space, name, db.execute(SPACE, (collection.space,)).fetchone())
    if query.filter is None and query.tenant is None:
        return collection, None
    filters, values = _filters(query)
    rows = db.execute(ALLOWED.format(filters=filters), (collection.id, *values)).fetchall()
    return collection, np.fromiter((rid for (rid,) in rows), dtype=np.int64, count=len(rows))


def by_words(db: sqlite3.Connection, name: str, words: str, query: Query) -> list[Hit]:
    """Find records by words."""
    collection = find(db, name)
    wanted = _as_words(words)
    if not wanted:
        return []
    filters, values = _filters(query)
    statement = WORDS.format(columns=COLUMNS[query.bare], filters=filters)
    rows = db.execute(statement, (wanted, collection.id, *values, query.k))
    return [_hit(id_, score, text, attributes, stale=False) for id_, score, text, attributes in rows]


def shown(db: sqlite3.Connection, space: int, found: Sequence[tuple[int, float]], *, bare: bool) -> list[Hit]:
    """Show the records that an index has found, in its order."""
    listed = json.dumps([rid for rid, _ in found])
    rows = {rid: rest for rid, *rest in db.execute(SHOWN.format(columns=COLUMNS[bare]), (listed, space))}
    return [
        _hit(rows[rid][0], score, rows[rid][1], rows[rid][2], stale=bool(rows[rid][3]))
        for rid, score in found
        if rid in rows
    ]


def _as_words(text: str) -> str:
    """Make a query that the word index cannot parse as syntax: every word a quoted string, any of them may match."""
    words = text.replace("\0", " ").split()[:MOST_WORDS]
    return " OR ".join('"' + word.replace('"', '""') + '"' for word in words)


def _filters(query: Query) -> tuple[str, list[Any]]:
    """Write filter and tenant as conditions. Names and values are passed as parameters only."""
    conditions, values = list[str](), list[Any]()
    if query.tenant is not None:
        conditions.append("AND x.tenant = ?")
        values.append(query.tenant)
    if query.filter is not None:
        written, wanted = condition(query.filter)
        conditions.append(f"AND {written}")
        values += wanted
    return " ".join(conditions), values


def _hit(id_: str, score: float, text: str, attributes: str, *, stale: bool) -> Hit:
    return Hit(id=RecordId(id_), score=float(score), text=text, attributes=json.loads(attributes), stale=stale)
