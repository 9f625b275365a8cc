"""The ANN index of a space: made when its vectors are worth it, without keeping anybody from writing."""

from dataclasses import dataclass

import asyncpg

from embedq.stores.postgres.connection import EXTENSION, Connection
from embedq.stores.postgres.schema import quoted

WORTH = 20_000  # vectors: below, looking at every one is as fast
LONGEST_SECONDS = 86_400.0  # of a building
MOST_VECTOR, MOST_HALF = 2_000, 4_000  # dimensions that HNSW can index, as floats and as half floats

# Which spaces have vectors, how many about, and whether their index is there and whole.
SHAPES = """
SELECT s.id, s.dimensions, c.oid IS NOT NULL AS has_table, coalesce(i.indisvalid, false) AS indexed,
  i.indexrelid IS NOT NULL AS begun
FROM embedq.space s LEFT JOIN pg_catalog.pg_class c ON c.oid = to_regclass(format('embedq.vector_%s', s.id))
LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = to_regclass(format('embedq.vector_%s_nearest', s.id))
WHERE s.dimensions IS NOT NULL
"""
SHAPE = SHAPES + " AND s.id = $1"
ENOUGH = "SELECT count(*) = {worth} FROM (SELECT FROM embedq.vector_{space} LIMIT {worth}) v"

# One process at a time builds; a session lock, since building without blocking cannot run in a transaction.
LOCK, UNLOCK = "SELECT pg_try_advisory_lock(1701667445, $1)", "SELECT pg_advisory_unlock(1701667445, $1)"


@dataclass(frozen=True, slots=True)
class Shape:
    """How the vectors of a space are kept."""

    space: int
    dimensions: int
    indexed: bool

    @property
    def kind(self) -> str:
        """Say as what they are indexed."""
        return "vector" if self.dimensions <= MOST_VECTOR else "halfvec"


async def shape_of(db: Connection, space: int) -> Shape | None:
    """Look at a space; None if it has no vectors yet."""
    row = await db.fetchrow(SHAPE, space)
    if row is None or not row["has_table"]:
        return None
    return Shape(space, row["dimensions"], row["indexed"])


async def build_one(db: Connection, worth: int, *, pooler: bool) -> int:
    """Build the index of one space that is worth it; answer with how many were built. Writers go on meanwhile."""
    for row in await db.fetch(SHAPES):
        if row["indexed"] or not row["has_table"] or row["dimensions"] > MOST_HALF:
            continue
        if not await db.fetchval(ENOUGH.format(worth=worth, space=row["id"])):
            continue
        shape = Shape(row["id"], row["dimensions"], indexed=False)
        if not pooler:
            return await _build_alone(db, shape)
        if not row["begun"]:  # without a session nobody can say whether one that was begun is still being built
            return await _create(db, shape)
    return 0


async def _build_alone(db: Connection, shape: Shape) -> int:
    """Build where no other process does, over one that was broken off."""
    if not await db.fetchval(LOCK, shape.space):
        return 0
    try:
        fresh = await shape_of(db, shape.space)
        if fresh is None or fresh.indexed:  # another process was faster
            return 0
        await db.execute("SET statement_timeout = 0")  # it takes as long as it takes
        await db.execute(f"DROP INDEX CONCURRENTLY IF EXISTS embedq.{_name(shape)}", timeout=LONGEST_SECONDS)
        return await _create(db, shape)
    finally:
        await db.execute("RESET statement_timeout")
        await db.execute(UNLOCK, shape.space)


async def _create(db: Connection, shape: Shape) -> int:
    schema = quoted(await db.fetchval(EXTENSION))
    column = f"(embedding::{schema}.{shape.kind}({shape.dimensions}))"
    try:
        await db.execute(
            f"CREATE INDEX CONCURRENTLY {_name(shape)} ON embedq.vector_{shape.space} "
            f"USING hnsw ({column} {schema}.{shape.kind}_cosine_ops)",
            timeout=LONGEST_SECONDS,
        )
    except asyncpg.DuplicateTableError:  # another process has just begun
        return 0
    return 1


def _name(shape: Shape) -> str:
    return f"vector_{shape.space}_nearest"
