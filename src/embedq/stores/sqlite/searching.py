"""Finding records: which are allowed, which match words, what the hits look like."""

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from embedq.errors import Invalid
from embedq.model import Hit, Query, RecordId
from embedq.stores.sqlite.collections import Found, find

MOST_WORDS = 64
SIMPLE_NAME = re.compile(r"^[\w .:-]+$")

# The records that a filter and a tenant allow.
ALLOWED = "SELECT x.rid FROM embedq_record x WHERE x.collection = ? AND x.valid_to IS NULL {filters} ORDER BY x.rid"

# Records by words, best first.
WORDS = """
SELECT x.id, -bm25(embedq_words), x.text, x.attributes, 0 FROM embedq_words
CROSS JOIN embedq_record x ON x.rid = embedq_words.rowid
WHERE embedq_words MATCH ? AND x.collection = ? AND x.valid_to IS NULL {filters}
ORDER BY bm25(embedq_words), x.rid LIMIT ?
"""

# What is shown of the records that were found.
SHOWN = """
SELECT x.rid, x.id, x.text, x.attributes, v.hash <> x.hash FROM json_each(?) e
CROSS JOIN embedq_record x ON x.rid = e.value JOIN embedq_vector v ON v.record = x.rid AND v.space = ?
WHERE x.valid_to IS NULL
"""

# An attribute has a value, or is a list that holds it. A number is a number, true is not 1.
HAS = """
(json_type(x.attributes, ?1) IN (?2, ?3) AND json_extract(x.attributes, ?1) IS ?4
  OR json_type(x.attributes, ?1) = 'array' AND EXISTS (
    SELECT 1 FROM json_each(x.attributes, ?1) a WHERE a.type IN (?2, ?3) AND a.atom IS ?4))
"""


def allowed(db: sqlite3.Connection, name: str, query: Query) -> tuple[Found, NDArray[np.int64] | None]:
    """List the records that filter and tenant allow; None: all of the collection."""
    collection = find(db, name)
    if not query.filter and query.tenant is None:
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
    rows = db.execute(WORDS.format(filters=filters), (wanted, collection.id, *values, query.k))
    return [_hit(id_, score, text, attributes, stale=False) for id_, score, text, attributes, _ in rows]


def shown(db: sqlite3.Connection, space: int, found: Sequence[tuple[int, float]]) -> list[Hit]:
    """Show the records that an index has found, in its order."""
    listed = json.dumps([rid for rid, _ in found])
    rows = {rid: rest for rid, *rest in db.execute(SHOWN, (listed, space))}
    return [
        _hit(rows[rid][0], score, rows[rid][1], rows[rid][2], stale=bool(rows[rid][3]))
        for rid, score in found
        if rid in rows
    ]


def _as_words(text: str) -> str:
    """Make a query that the word index cannot misread: every word a quoted string, any of them may match."""
    words = text.replace("\0", " ").split()[:MOST_WORDS]
    return " OR ".join('"' + word.replace('"', '""') + '"' for word in words)


def _filters(query: Query) -> tuple[str, list[Any]]:
    """Write filter and tenant as conditions. Names and values travel as parameters only."""
    conditions, values = [], []
    if query.tenant is not None:
        conditions.append("AND x.tenant = ?")
        values.append(query.tenant)
    for name, wanted in query.filter.items():
        one_of = wanted if isinstance(wanted, list | tuple) else [wanted]
        parts = [_has(name, value) for value in one_of]
        conditions.append("AND (" + (" OR ".join(part for part, _ in parts) or "0") + ")")
        values += [parameter for _, parameters in parts for parameter in parameters]
    return " ".join(conditions), values


def _has(name: str, value: object) -> tuple[str, list[Any]]:
    if not SIMPLE_NAME.match(name):
        raise Invalid(f"filter: the attribute name {name!r} has characters that cannot be filtered by")
    if isinstance(value, Mapping | list | tuple):
        raise Invalid(f"filter: {name!r} must be a value or a list of values")
    path = f'$."{name}"'
    types = _types(value)
    bound = {"?1": path, "?2": types[0], "?3": types[1], "?4": _bound(name, value)}
    order = re.findall(r"\?[1-4]", HAS)
    return re.sub(r"\?[1-4]", "?", HAS), [bound[place] for place in order]


def _bound(name: str, value: object) -> object:
    """Make a value that SQLite can compare: true is 1 there, and a number of over 64 bits a fraction."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        try:
            return float(value)
        except OverflowError as error:
            raise Invalid(f"filter: {name!r} is a number beyond all bounds") from error
    return value


def _types(value: object) -> tuple[str, str]:
    match value:
        case None:
            return "null", "null"
        case bool():
            return ("true", "true") if value else ("false", "false")
        case int() | float():
            return "integer", "real"
        case _:
            return "text", "text"


def _hit(id_: str, score: float, text: str, attributes: str, *, stale: bool) -> Hit:
    return Hit(id=RecordId(id_), score=float(score), text=text, attributes=json.loads(attributes), stale=stale)
