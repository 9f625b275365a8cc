"""The ANN index of a space: built when it has enough vectors, without blocking writers."""

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import Any

from embedq.errors import StoreError
from embedq.model import EmbedderName
from embedq.stores.postgres.build_memory import MEMORY_MB, graph_bytes, tune
from embedq.stores.postgres.connection import EXTENSION, Connection, connect
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.errors import Fault, state_of, translated
from embedq.stores.postgres.quoting import quoted
from embedq.telemetry import Event

WORTH = 20_000  # vectors: below, an exact scan is as fast
OVERDUE = 10  # times as many: from there on search is slow enough that the queue is not waited for
MOST_VECTOR, MOST_HALF = 2_000, 4_000  # dimensions that HNSW can index, as floats and as half floats
RETRY_SECONDS = 600.0  # after a failed build: each try may cost the server minutes
CLAIM_SECONDS, POLL_SECONDS = 30.0, 0.05  # for a build to start, and between two checks whether it has
CLOSE_SECONDS = 5.0
NO_ROOM = frozenset({"53100", "53200"})  # SQLSTATEs of a server that cannot share so much memory with workers
NO_LONGER_FITS = "maintenance_work_mem"  # the server's notice when a graph outgrows its memory

SHAPE = """
SELECT s.id, s.dimensions, coalesce(i.indisvalid, false) AS indexed
FROM embedq.space s JOIN pg_catalog.pg_class c ON c.oid = to_regclass(format('embedq.vector_%s', s.id))
LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = to_regclass(format('embedq.vector_%s_nearest', s.id))
WHERE s.dimensions IS NOT NULL AND s.id = $1
"""

# The spaces without a valid index, who owns their vectors, how many there are, and how many are pending.
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

# One process at a time starts. A transaction-level lock, so that it also works behind a pooler.
CLAIM = "SELECT pg_try_advisory_xact_lock(1701667445, $1)"

# Another session builds or drops an index of this table: that holds this lock from start to end, however it is
# connected, and the server releases the lock if it dies. Autovacuum (it has no user) takes the lock too, but yields
# it.
UNDER_WAY = """
SELECT EXISTS (
  SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid AND a.usesysid IS NOT NULL
  WHERE l.locktype = 'relation' AND l.mode = 'ShareUpdateExclusiveLock' AND l.granted AND l.relation = to_regclass($1)
    AND l.database = (SELECT d.oid FROM pg_catalog.pg_database d WHERE d.datname = current_database()))
"""

# A query, not to_regclass: within a transaction to_regclass may keep returning its first result.
FOUND = """
SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'embedq' AND c.relname = $1
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """How the vectors of a space are stored."""

    space: int
    dimensions: int
    indexed: bool

    @property
    def kind(self) -> str:
        """Return the type that they are indexed as."""
        return "vector" if self.dimensions <= MOST_VECTOR else "halfvec"

    @property
    def vector_bytes(self) -> int:
        """Return the size of a vector as it is indexed."""
        return self.dimensions * (4 if self.kind == "vector" else 2)

    @property
    def table(self) -> str:
        """Return the name of the vectors' table."""
        return f"embedq.vector_{self.space}"

    @property
    def index(self) -> str:
        """Return the name of the index, built or not."""
        return f"vector_{self.space}_nearest"


async def shape_of(db: Connection, space: int) -> Shape | None:
    """Read a space's shape; None if it has no vectors yet."""
    row = await db.fetchrow(SHAPE, space)
    return None if row is None else Shape(space, row["dimensions"], row["indexed"])


def is_due(stored: int, to_come: int, worth: int) -> bool:
    """Say whether a space should get its index now.

    Vectors added later enter it one by one, which costs far more than building it over existing ones. So while more
    are pending than stored, it waits; but not for a queue that never gets short: once there are many times more
    vectors than are worth an index, it is built however long the queue is.
    """
    return stored >= worth and (to_come < stored or stored >= OVERDUE * worth)


class ParallelRefused(StoreError):
    """The server has no shared memory for parallel workers."""


class Indexes:
    """Builds what is due, one at a time among all processes and for each space."""

    def __init__(self, database: Database, worth: int = WORTH, memory_mb: int = MEMORY_MB) -> None:
        """Build in this database, from this many vectors on, with at most so much memory."""
        self._database = database
        self._worth = worth
        self._memory_mb = memory_mb
        self._parallel = True  # until the server refuses
        self._retry_at: dict[int, float] = {}
        self._left_to_others: set[int] = set()

    async def build_one(self) -> int:
        """Build the index of one space that is due; return how many were built. Writers are not blocked."""
        for row in await self._database.fetch(UNINDEXED):
            if row["dimensions"] > MOST_HALF or not is_due(row["stored"], row["open"], self._worth):
                continue
            if self._retry_at.get(row["id"], 0.0) <= time.monotonic() and self._is_ours(row):
                shape = Shape(row["id"], row["dimensions"], indexed=False)
                if await self._build_somehow(shape, row):
                    return 1
        return 0

    async def _build_somehow(self, shape: Shape, row: Any) -> bool:  # noqa: ANN401 a row
        """Build with parallel workers, or without them where the server refuses."""
        try:
            return await self._build(shape, row)
        except ParallelRefused:
            self._parallel = False
            return await self._build(shape, row)

    def _is_ours(self, row: Any) -> bool:  # noqa: ANN401 a row
        """Say whether we may build it: only a table's owner can. Report once if not."""
        if not row["ours"] and row["id"] not in self._left_to_others:
            self._left_to_others.add(row["id"])
            reason = f"only {row['owner']} may build it: let a worker run as that role"
            self._report("not_built", row, level="warning", reason=reason)
        return bool(row["ours"])

    async def _build(self, shape: Shape, row: Any) -> bool:  # noqa: ANN401 a row
        """Build unless another process does, replacing an aborted index."""
        async with self._database.transaction() as claim:
            if not await claim.fetchval(CLAIM, shape.space) or await claim.fetchval(UNDER_WAY, shape.table):
                return False
            fresh = await shape_of(claim, shape.space)
            if fresh is None or fresh.indexed:  # another process was faster
                return False
            broken = await claim.fetchval(FOUND, shape.index)
            building = asyncio.create_task(self._build_and_report(shape, row))
            try:
                await _wait_until_begun(claim, shape, broken, building)
            except BaseException:
                building.cancel()
                await asyncio.gather(building, return_exceptions=True)
                raise
        return await building

    async def _build_and_report(self, shape: Shape, row: Any) -> bool:  # noqa: ANN401 a row
        """Build, and report its start and its end."""
        began_at = time.monotonic()
        self._report("building", row)
        try:
            await self._create(shape, row)
        except (StoreError, asyncio.CancelledError) as error:
            self._retry_at[shape.space] = time.monotonic() + RETRY_SECONDS
            reason = str(error) or "it was told to stop"
            self._report("not_built", row, level="warning", seconds=time.monotonic() - began_at, reason=reason)
            raise
        self._report("built", row, seconds=time.monotonic() - began_at)
        return True

    async def _create(self, shape: Shape, row: Any) -> None:  # noqa: ANN401 a row
        """Build on a separate connection."""
        address, parallel = self._database.address, self._parallel
        db = await connect(address)
        db.add_log_listener(lambda _, notice: self._warn(row, str(notice)))
        try:
            if not address.pooler:  # behind a pooler the session is shared
                needed = graph_bytes(int(row["stored"]), shape.vector_bytes)
                await tune(db, needed, self._memory_mb, parallel=parallel)
            schema = quoted(await db.fetchval(EXTENSION))
            await db.execute(f"DROP INDEX CONCURRENTLY IF EXISTS embedq.{shape.index}")
            await db.execute(
                f"CREATE INDEX CONCURRENTLY {shape.index} ON {shape.table} USING hnsw "
                f"((embedding::{schema}.{shape.kind}({shape.dimensions})) {schema}.{shape.kind}_cosine_ops)"
            )
        except Fault as error:
            if parallel and state_of(error) in NO_ROOM and not address.pooler:
                raise ParallelRefused(f"no room for parallel workers ({error}): it is built without them") from error
            raise translated(error, address.shown) from error
        finally:
            with contextlib.suppress(*Fault):
                await db.close(timeout=CLOSE_SECONDS)  # if cancelled, it waits for the server to release its locks

    def _warn(self, row: Any, notice: str) -> None:  # noqa: ANN401 a row
        """Report once a build has outgrown its memory: the rest of it takes many times longer."""
        if NO_LONGER_FITS in notice:
            pooler = self._database.address.pooler
            remedy = "ALTER ROLE … SET maintenance_work_mem" if pooler else "EMBEDQ_PG_INDEX_MEMORY_MB"
            self._report("outgrown", row, level="warning", reason=f"{notice}: raise {remedy}")

    def _report(self, act: str, row: Any, *, level: str = "info", **facts: object) -> None:  # noqa: ANN401 a row
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


async def _wait_until_begun(claim: Connection, shape: Shape, broken: int | None, building: asyncio.Task[bool]) -> None:
    """Hold the claim until others can see that the build has started; an aborted index does not count."""
    until = time.monotonic() + CLAIM_SECONDS
    while time.monotonic() < until:
        done, _ = await asyncio.wait([building], timeout=POLL_SECONDS)
        if done or await claim.fetchval(FOUND, shape.index) not in {None, broken}:
            return
