"""Finding records: by vector, by words, and what the hits look like."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from embedq.errors import Invalid
from embedq.model import Hit, Query, RecordId, Vector
from embedq.policy.texts import check_filter
from embedq.stores.postgres.catalogue import find
from embedq.stores.postgres.connection import EXTENSION, Connection
from embedq.stores.postgres.index import Shape, shape_of
from embedq.stores.postgres.quoting import quoted
from embedq.stores.postgres.vectors import encode

MOST_WORDS = 64
MOST_CHARACTERS = 10_000  # of a query
SIMPLE_NAME = re.compile(r"[\w .:-]+")
COLUMNS = {False: "x.text, x.attributes", True: "'' AS text, '{}' AS attributes"}  # by whether hits are bare

# The nearest records of a collection by cosine. A vector of zeros has no direction: its cosine counts as 0.
NEAREST = """
SELECT x.id, {columns}, v.hash <> x.hash AS stale,
  coalesce(nullif(1 - ({distance}), 'NaN'), 0) AS score
FROM embedq.vector_{space} v JOIN embedq.record x ON x.rid = v.record
WHERE v.collection = $2 AND x.valid_to IS NULL {filters}
ORDER BY {distance} LIMIT $3
"""

# Any of these words, as the text search parser reads them: a lexeme is quoted, so none of it is syntax.
WORDS = """
WITH q AS (
  SELECT string_agg('''' || replace(replace(lexeme, chr(92), repeat(chr(92), 2)), '''', '''''') || '''', ' | ')::tsquery
    AS query
  FROM unnest(to_tsvector('pg_catalog.simple', $1)))
SELECT x.id, {columns}, false AS stale, ts_rank(x.words, q.query) AS score
FROM q, embedq.record x WHERE x.words @@ q.query AND x.collection = $2 AND x.valid_to IS NULL {filters}
ORDER BY score DESC, x.rid LIMIT $3
"""

# An attribute has a value, or is a list that holds it. JSON tells a number from a text, and true from 1.
HAS = "x.attributes @> ANY ({place}::jsonb[])"


async def by_vector(db: Connection, name: str, vector: Vector, query: Query) -> list[Hit]:
    """Find the nearest records by cosine."""
    collection = await find(db, name)
    shape = await shape_of(db, collection.space)
    if shape is None:
        return []
    if len(vector) != shape.dimensions:
        raise Invalid(f"The query vector has {len(vector)} numbers; this collection's have {shape.dimensions}.")
    filters, values = _filters(query, first=4)
    found, columns = (encode(vector), collection.id, query.k, *values), COLUMNS[query.bare]
    schema = quoted(await db.fetchval(EXTENSION))
    rows: Sequence[Any] = []
    if shape.indexed:
        rows = await _by_index(db, _nearest(shape, schema, filters, columns, exact=False), found)
    if len(rows) < query.k:  # a filter may have left nearly nothing of what the index offers: look at everything
        rows = await db.fetch(_nearest(shape, schema, filters, columns, exact=True), *found)
    return [_hit(row) for row in rows]


async def _by_index(db: Connection, statement: str, values: Sequence[Any]) -> Sequence[Any]:
    async with db.transaction():
        await db.execute("SET LOCAL hnsw.iterative_scan = strict_order; SET LOCAL enable_sort = off")
        rows: Sequence[Any] = await db.fetch(statement, *values)
        return rows


def _nearest(shape: Shape, schema: str, filters: str, columns: str, *, exact: bool) -> str:
    kind = f"{schema}.vector" if exact else f"{schema}.{shape.kind}"
    side = f"(v.embedding::{kind}({shape.dimensions}))" if not exact else "v.embedding"
    distance = f"{side} OPERATOR({schema}.<=>) $1::{schema}.vector::{kind}"
    if exact:
        distance = f"({distance}) + 0.0"  # an index cannot serve this order
    return NEAREST.format(space=shape.space, columns=columns, distance=distance, filters=filters)


async def by_words(db: Connection, name: str, words: str, query: Query) -> list[Hit]:
    """Find records by words."""
    collection = await find(db, name)
    wanted = " ".join(words.replace("\0", " ")[:MOST_CHARACTERS].split()[:MOST_WORDS])
    if not wanted:
        return []
    filters, values = _filters(query, first=4)
    statement = WORDS.format(columns=COLUMNS[query.bare], filters=filters)
    rows = await db.fetch(statement, wanted, collection.id, query.k, *values)
    return [_hit(row) for row in rows]


def _filters(query: Query, *, first: int) -> tuple[str, list[Any]]:
    """Write filter and tenant as conditions. Names and values travel as parameters only."""
    check_filter(query.filter.keys())
    conditions, values = list[str](), list[Any]()
    if query.tenant is not None:
        conditions.append(f"AND x.tenant = ${first}")
        values.append(query.tenant)
    for name, wanted in query.filter.items():
        conditions.append("AND " + HAS.format(place=f"${first + len(values)}"))
        one_of = wanted if isinstance(wanted, list | tuple) else [wanted]
        values.append([part for value in one_of for part in _has(name, value)])
    return " ".join(conditions), values


def _has(name: str, value: object) -> tuple[str, str]:
    """Write what the attributes must hold: the value itself, or a list with it."""
    if not SIMPLE_NAME.fullmatch(name):
        raise Invalid(f"filter: the attribute name {name!r} has characters that cannot be filtered by")
    if isinstance(value, Mapping | list | tuple):
        raise Invalid(f"filter: {name!r} must be a value or a list of values")
    return json.dumps({name: value}), json.dumps({name: [value]})


def _hit(row: Mapping[str, Any]) -> Hit:
    return Hit(
        id=RecordId(row["id"]),
        score=float(row["score"]),
        text=row["text"],
        attributes=json.loads(row["attributes"]),
        stale=row["stale"],
    )
