"""The ANN index of a space: made when its vectors are worth it, without keeping anybody from writing."""

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import Any

from embedq.errors import StoreError
from embedq.model import EmbedderName
from embedq.stores.postgres.connection import EXTENSION, Connection, connect
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.errors import Fault, translated
from embedq.stores.postgres.quoting import quoted
from embedq.telemetry import Event

WORTH = 20_000  # vectors: below, looking at every one is as fast
OVERDUE = 10  # times as many: from there on search is slow enough that no queue is waited for
MOST_VECTOR, MOST_HALF = 2_000, 4_000  # dimensions that HNSW can index, as floats and as half floats
REST_SECONDS = 600.0  # after a failed building: each try may cost the server minutes
CLAIM_SECONDS, LOOK_SECONDS = 30.0, 0.05  # for a building to begin, and between two looks whether it has
CLOSE_SECONDS = 5.0

SHAPE = """
SELECT s.id, s.dimensions, coalesce(i.indisvalid, false) AS indexed
FROM embedq.space s JOIN pg_catalog.pg_class c ON c.oid = to_regclass(format('embedq.vector_%s', s.id))
LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = to_regclass(format('embedq.vector_%s_nearest', s.id))
WHERE s.dimensions IS NOT NULL AND s.id = $1
"""

# The spaces without a whole index, who owns their vectors, how many there are, and how many are still to come.
UNINDEXED = """
SELECT s.id, s.provider, s.model, s.asked, s.dimensions, n.collections, n.stored, n.open,
  pg_catalog.pg_get_userbyid(c.relowner) AS owner, pg_catalog.pg_has_role(c.relowner, 'USAGE') AS ours
FROM embedq.space s JOIN pg_catalog.pg_class c ON c.oid = to_regclass(format('embedq.vector_%s', s.id))
LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = to_regclass(format('embedq.vector_%s_nearest', s.id))
CROSS JOIN LATERAL (
  SELECT array_agg(DISTINCT k.name ORDER BY k.name) FILTER (WHERE k.name IS NOT NULL) AS collections,
    coalesce(sum(t.records - t.missing), 0) AS stored, coalesce(sum(t.open), 0) AS open
  FROM embedq.collection k JOIN embedq.tally t ON t.collection = k.id WHERE k.space = s.id) n
WHERE s.dimensions IS NOT NULL AND i.indisvalid IS NOT TRUE ORDER BY s.id
"""

# One process at a time begins. The transaction's lock, so that it holds behind a pooler too.
CLAIM = "SELECT pg_try_advisory_xact_lock(1701667445, $1)"

# Somebody builds an index of this table or drops one: that needs this lock from its beginning to its end, however
# the other is connected, and the server lets go of it if the other dies. The server's own vacuum (it is nobody's) needs
# it too, but gives way.
UNDER_WAY = """
SELECT EXISTS (
  SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid AND a.usesysid IS NOT NULL
  WHERE l.locktype = 'relation' AND l.mode = 'ShareUpdateExclusiveLock' AND l.granted AND l.relation = to_regclass($1)
    AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database()))
"""

# By reading, not by to_regclass: within a transaction that may go on saying what it has said.
FOUND = """
SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'embedq' AND c.relname = $1
"""


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

    @property
    def table(self) -> str:
        """Name the table of the vectors."""
        return f"embedq.vector_{self.space}"

    @property
    def index(self) -> str:
        """Name the index, as it is or will be."""
        return f"vector_{self.space}_nearest"


async def shape_of(db: Connection, space: int) -> Shape | None:
    """Look at a space; None if it has no vectors yet."""
    row = await db.fetchrow(SHAPE, space)
    return None if row is None else Shape(space, row["dimensions"], row["indexed"])


def is_due(stored: int, to_come: int, worth: int) -> bool:
    """Say whether a space should get its index now.

    Vectors that come later enter it one by one, which costs far more than building it over what is there. So while more
    are to come than are stored, it waits; but not for a queue that never gets short: once there are many times more
    vectors than are worth an index, it is built however long the queue is.
    """
    return stored >= worth and (to_come < stored or stored >= OVERDUE * worth)


class Indexes:
    """Builds what is due, one at a time in the whole fleet and for each space."""

    def __init__(self, database: Database, worth: int) -> None:
        """Build in this database, from so many vectors on."""
        self._database = database
        self._worth = worth
        self._rests_until: dict[int, float] = {}
        self._left_to_others: set[int] = set()

    async def build_one(self) -> int:
        """Build the index of one space that is worth it; answer with how many were built. Writers go on meanwhile."""
        for row in await self._database.fetch(UNINDEXED):
            if row["dimensions"] > MOST_HALF or not is_due(row["stored"], row["open"], self._worth):
                continue
            if self._rests_until.get(row["id"], 0.0) <= time.monotonic() and self._is_ours(row):
                shape = Shape(row["id"], row["dimensions"], indexed=False)
                if await self._build(shape, row):
                    return 1
        return 0

    def _is_ours(self, row: Any) -> bool:  # noqa: ANN401 a row
        """Say whether we may build it: only a table's owner can. Tell once if not."""
        if not row["ours"] and row["id"] not in self._left_to_others:
            self._left_to_others.add(row["id"])
            reason = f"only {row['owner']} may build it: let a worker run as that role"
            self._tell("not_built", row, level="warning", reason=reason)
        return bool(row["ours"])

    async def _build(self, shape: Shape, row: Any) -> bool:  # noqa: ANN401 a row
        """Build where no other process does, over one that was broken off."""
        async with self._database.transaction() as claim:
            if not await claim.fetchval(CLAIM, shape.space) or await claim.fetchval(UNDER_WAY, shape.table):
                return False
            fresh = await shape_of(claim, shape.space)
            if fresh is None or fresh.indexed:  # another process was faster
                return False
            broken = await claim.fetchval(FOUND, shape.index)
            building = asyncio.create_task(self._told(shape, row))
            try:
                await _begun(claim, shape, broken, building)
            except BaseException:
                building.cancel()
                await asyncio.gather(building, return_exceptions=True)
                raise
        return await building

    async def _told(self, shape: Shape, row: Any) -> bool:  # noqa: ANN401 a row
        """Build, and tell of its beginning and its end."""
        began_at = time.monotonic()
        self._tell("building", row)
        try:
            await self._create(shape)
        except (StoreError, asyncio.CancelledError) as error:
            self._rests_until[shape.space] = time.monotonic() + REST_SECONDS
            reason = str(error) or "it was told to stop"
            self._tell("not_built", row, level="warning", seconds=time.monotonic() - began_at, reason=reason)
            raise
        self._tell("built", row, seconds=time.monotonic() - began_at)
        return True

    async def _create(self, shape: Shape) -> None:
        """Build on a connection of its own, on which a statement may take as long as it takes."""
        address = self._database.address
        db = await connect(address)
        try:
            if not address.pooler:  # behind one it would be the next one's session
                await db.execute("SET statement_timeout = 0; SET lock_timeout = 0")
            schema = quoted(await db.fetchval(EXTENSION))
            await db.execute(f"DROP INDEX CONCURRENTLY IF EXISTS embedq.{shape.index}")
            await db.execute(
                f"CREATE INDEX CONCURRENTLY {shape.index} ON {shape.table} USING hnsw "
                f"((embedding::{schema}.{shape.kind}({shape.dimensions})) {schema}.{shape.kind}_cosine_ops)"
            )
        except Fault as error:
            raise translated(error, address.shown) from error
        finally:
            with contextlib.suppress(*Fault):
                await db.close(timeout=CLOSE_SECONDS)  # after a stop it waits until the server has let go

    def _tell(self, act: str, row: Any, *, level: str = "info", **facts: object) -> None:  # noqa: ANN401 a row
        self._database.telemetry.emit(
            Event.INDEX,
            level=level,
            act=act,
            index=f"vector_{row['id']}_nearest",
            space=str(EmbedderName(provider=row["provider"], model=row["model"], dimensions=row["asked"] or None)),
            collections=list(row["collections"] or ()),
            vectors=int(row["stored"]),
            **facts,
        )


async def _begun(claim: Connection, shape: Shape, broken: int | None, building: asyncio.Task[bool]) -> None:
    """Hold the claim until others can see that the index is under way; one that was broken off is another."""
    until = time.monotonic() + CLAIM_SECONDS
    while time.monotonic() < until:
        done, _ = await asyncio.wait([building], timeout=LOOK_SECONDS)
        if done or await claim.fetchval(FOUND, shape.index) not in {None, broken}:
            return
