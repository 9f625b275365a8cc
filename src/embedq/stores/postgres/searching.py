"""Find records: by vector, by words, and build the hits."""

import json
import re
from collections.abc import Mapping
from typing import Any

from embedq.errors import Invalid
from embedq.model import Hit, Query, RecordId, Vector
from embedq.policy.texts import check_filter, check_filterable
from embedq.stores.columns import check_space, read_attributes
from embedq.stores.postgres.catalogue import absent
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.vectors import encode

MOST_WORDS = 64
MOST_CHARACTERS = 10_000  # of a query
SIMPLE_NAME = re.compile(r"[\w .:-]+")
COLUMNS = {False: "x.text AS words, x.attributes", True: "'' AS words, '{}' AS attributes"}  # by whether hits are bare
NEAREST = "SELECT * FROM embedq.nearest($1, $2, $3, $4, $5, $6, $7)"

# Any of these words, as the text search parser reads them: a lexeme is quoted, so none of it is syntax. No row: there
# is no such collection; a row without an id: nothing was found.
WORDS = """
WITH c AS MATERIALIZED (
  SELECT id, (SELECT a.attributes FROM embedq.attachment a WHERE a.collection = collection.id) AS filterable
  FROM embedq.collection WHERE name = $2), q AS (
  SELECT string_agg('''' || replace(replace(lexeme, chr(92), repeat(chr(92), 2)), '''', '''''') || '''', ' | ')::tsquery
    AS query
  FROM unnest(to_tsvector('pg_catalog.simple', $1)))
SELECT c.filterable, h.* FROM c LEFT JOIN (
  SELECT x.rid, x.id, {columns}, false AS stale, ts_rank(x.words, q.query) AS score FROM q, embedq.record x
  WHERE x.words @@ q.query AND x.collection = (SELECT c.id FROM c) AND x.valid_to IS NULL {filters}
  ORDER BY score DESC, x.rid LIMIT $3) h ON true
ORDER BY h.score DESC, h.rid
"""

# An attribute has one of the values in this list of $5, or is a list that contains one. JSON distinguishes a number
# from a text, and true from 1. The second condition is for the index of attributes.
HAS = "AND x.attributes @> ANY (ARRAY(SELECT jsonb_array_elements($5::jsonb -> {place}))) AND x.attributes <> '{{}}'"
OF_TENANT = {False: "AND $4::text IS NULL", True: "AND x.tenant = $4"}  # by whether one is given


async def by_vector(db: Connection, name: str, vector: Vector, query: Query) -> list[Hit]:
    """Find the nearest records by cosine."""
    asked = (len(vector), query.k, query.tenant, _wanted(query), query.bare)
    rows = await db.fetch(NEAREST, name, encode(vector), *asked)
    if not rows:
        raise absent(name)
    space, *found = rows
    check_filterable(query.filter, space["filterable"], name)
    check_space(query.space, name, (space["provider"], space["model"], space["asked"], space["version"]))
    if space["dimensions"] is None:
        return []
    if len(vector) != space["dimensions"]:
        raise Invalid(f"The query vector has {len(vector)} numbers; this collection's have {space['dimensions']}.")
    exact = [row for row in found if row["exact"]]
    return [_hit(row) for row in exact or found]


async def by_words(db: Connection, name: str, words: str, query: Query) -> list[Hit]:
    """Find records by words."""
    wanted = " ".join(words.replace("\0", " ")[:MOST_CHARACTERS].split()[:MOST_WORDS])
    filters = [HAS.format(place=place) for place in range(len(query.filter))] or ["AND $5::jsonb IS NULL"]
    filters.append(OF_TENANT[query.tenant is not None])
    statement = WORDS.format(columns=COLUMNS[query.bare], filters=" ".join(filters))
    rows = await db.fetch(statement, wanted, name, query.k, query.tenant, _wanted(query))
    if not rows:
        raise absent(name)
    check_filterable(query.filter, rows[0]["filterable"], name)
    return [_hit(row) for row in rows if row["id"] is not None]


def _wanted(query: Query) -> str | None:
    """Write a filter: per attribute a list of values, one of which a record's attribute must contain."""
    check_filter(query.filter.keys())
    if not query.filter:
        return None
    return f"[{', '.join(_one_of(name, wanted) for name, wanted in query.filter.items())}]"


def _one_of(name: str, wanted: object) -> str:
    values = wanted if isinstance(wanted, list | tuple) else [wanted]
    return f"[{', '.join(part for value in values for part in _has(name, value))}]"


def _has(name: str, value: object) -> tuple[str, str]:
    """Write what the attributes must contain: the value itself, or a list with it."""
    if not SIMPLE_NAME.fullmatch(name):
        raise Invalid(f"filter: the attribute name {name!r} has characters that cannot be filtered by")
    if isinstance(value, Mapping | list | tuple):
        raise Invalid(f"filter: {name!r} must be a value or a list of values")
    return json.dumps({name: value}), json.dumps({name: [value]})


def _hit(row: Mapping[str, Any]) -> Hit:
    return Hit(
        id=RecordId(row["id"]),
        score=float(row["score"]),
        text=row["words"],
        attributes=read_attributes(row["attributes"]),
        stale=row["stale"],
    )
