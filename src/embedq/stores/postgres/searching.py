"""Find records: by vector, by words, and build the hits."""

import json
import re
from collections.abc import Mapping
from typing import Any

from embedq.errors import Invalid
from embedq.model import Hit, Query, RecordId, Vector
from embedq.policy.languages import without_stop_words, words_of
from embedq.policy.texts import check_filter, check_filterable
from embedq.stores.columns import check_space, read_attributes
from embedq.stores.postgres.catalogue import absent
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.vectors import encode

SIMPLE_NAME = re.compile(r"[\w .:-]+")
NEAREST = "SELECT * FROM embedq.nearest($1, $2, $3, $4, $5, $6, $7)"

WORDS = "SELECT * FROM embedq.by_words($1, $2, $3, $4, $5, $6)"


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
    wanted = without_stop_words(words_of(words))
    rows = await db.fetch(WORDS, name, wanted, query.k, query.tenant, _wanted(query), query.bare)
    if not rows:
        raise absent(name)
    collection, *found = rows
    check_filterable(query.filter, collection["filterable"], name)
    exact = [row for row in found if row["exact"]]
    return [_hit(row, share=float(row["share"])) for row in exact or found]


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


def _hit(row: Mapping[str, Any], share: float | None = None) -> Hit:
    return Hit(
        id=RecordId(row["id"]),
        score=float(row["score"]),
        text=row["words"],
        attributes=read_attributes(row["attributes"]),
        stale=share is None and row["stale"],
        share=share,
    )
