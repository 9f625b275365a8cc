"""Find records: by vector, by words, and build the hits."""

from collections.abc import Mapping
from typing import Any

from embedq.errors import Invalid
from embedq.model import Hit, Query, RecordId, Vector
from embedq.policy.filters import check_filterable
from embedq.policy.languages import words_of
from embedq.stores.columns import check_space, read_attributes
from embedq.stores.postgres.catalogue import absent
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.filtering import listed
from embedq.stores.postgres.vectors import encode

NEAREST = "SELECT * FROM embedq.nearest($1, $2, $3, $4, $5, $6, $7)"

WORDS = "SELECT * FROM embedq.by_words($1, $2, $3, $4, $5, $6)"


async def by_vector(db: Connection, name: str, vector: Vector, query: Query) -> list[Hit]:
    """Find the nearest records by cosine."""
    asked = (len(vector), query.k, query.tenant, listed(query.filter), query.bare)
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
    rows = await db.fetch(WORDS, name, words_of(words), query.k, query.tenant, listed(query.filter), query.bare)
    if not rows:
        raise absent(name)
    collection, *found = rows
    check_filterable(query.filter, collection["filterable"], name)
    exact = [row for row in found if row["exact"]]
    return [_hit(row, share=float(row["share"])) for row in exact or found]


def _hit(row: Mapping[str, Any], share: float | None = None) -> Hit:
    return Hit(
        id=RecordId(row["id"]),
        score=float(row["score"]),
        text=row["words"],
        attributes=read_attributes(row["attributes"]),
        stale=share is None and row["stale"],
        share=share,
    )
