"""Find records: which ones are allowed, and build the hits."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedq.model import Hit, Query, RecordId
from embedq.stores.columns import check_space
from embedq.stores.sqlite.collections import Found, find
from embedq.stores.sqlite.filtering import condition
from embedq.stores.sqlite.word_ranking import Narrowed, rank

COLUMNS = {False: "x.text, x.attributes", True: "'', '{}'"}  # by whether hits are bare

SPACE = "SELECT provider, model, asked, version FROM embedq_space WHERE id = ?"

# The records that a filter and a tenant allow.
ALLOWED = "SELECT x.rid FROM embedq_record x WHERE x.collection = ? AND x.valid_to IS NULL {filters} ORDER BY x.rid"

# What is shown of the records that were found by words.
WORDED = "SELECT x.rid, x.id, {columns} FROM json_each(?) e CROSS JOIN embedq_record x ON x.rid = e.value"

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
    found = rank(db, find(db, name).id, words, Narrowed(*_filters(query)), query.k)
    listed = json.dumps([one.rid for one in found])
    rows = {rid: rest for rid, *rest in db.execute(WORDED.format(columns=COLUMNS[query.bare]), (listed,))}
    return [replace(_hit(*rows[one.rid], score=one.score), share=one.share) for one in found]


def shown(db: sqlite3.Connection, space: int, found: Sequence[tuple[int, float]], *, bare: bool) -> list[Hit]:
    """Show the records that an index has found, in its order."""
    listed = json.dumps([rid for rid, _ in found])
    rows = {rid: rest for rid, *rest in db.execute(SHOWN.format(columns=COLUMNS[bare]), (listed, space))}
    return [_hit(*rows[rid], score=score) for rid, score in found if rid in rows]


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


def _hit(id_: str, text: str, attributes: str, stale: int = 0, *, score: float) -> Hit:
    return Hit(id=RecordId(id_), score=float(score), text=text, attributes=json.loads(attributes), stale=bool(stale))
