"""The bare asyncpg loop that the product is measured beside: one table, no fences, no history, no record to look at.

It leases 100 jobs with their texts by one UPDATE … SKIP LOCKED and finishes them by one DELETE; each is a commit.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import asyncpg

from embedq.stores.postgres import vectors
from postgres.ground import connected, ones
from postgres.hands import Drain
from texts import text

DIMENSIONS = 384

TABLES = f"""
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE bare (id bigint PRIMARY KEY, status int NOT NULL, due timestamptz NOT NULL, token bigint NOT NULL,
  worker text, until timestamptz, text text NOT NULL, hash bytea NOT NULL);
CREATE INDEX bare_due ON bare (due, id) WHERE status = 0;
CREATE TABLE bare_vector (id bigint PRIMARY KEY, hash bytea NOT NULL, embedding vector({DIMENSIONS}) NOT NULL);
"""
LEASE = """
UPDATE bare SET status = 1, token = token + 1, worker = 'w', until = now() + interval '5 minutes'
WHERE id = ANY (ARRAY(SELECT id FROM bare WHERE status = 0 ORDER BY due, id LIMIT 100 FOR UPDATE SKIP LOCKED))
RETURNING id, token, text, hash
"""
FINISH = "DELETE FROM bare WHERE id = ANY ($1)"
STORE = "INSERT INTO bare_vector SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::vector[])"
COLUMNS = ("id", "status", "due", "token", "text", "hash")


async def refill(db: asyncpg.Connection, jobs: int) -> None:
    """Fill the table with new jobs, and vacuum it before anybody works on it. Vectors stay, as ours do."""
    await db.execute("TRUNCATE bare")
    first = await db.fetchval("SELECT coalesce(max(id) + 1, 0) FROM bare_vector")
    now = datetime.now(UTC)
    rows = [(first + number, 0, now, 0, text(number), b"h" * 32) for number in range(jobs)]
    await db.copy_records_to_table("bare", records=rows, columns=COLUMNS)
    await db.execute("VACUUM ANALYZE bare")


@asynccontextmanager
async def drainer(url: str) -> AsyncIterator[Drain]:
    """Lease and delete."""
    async with connected(url) as db:

        async def drain() -> int:
            done = 0
            while leased := await db.fetch(LEASE):
                await db.execute(FINISH, [row[0] for row in leased])
                done += len(leased)
            return done

        yield drain


@asynccontextmanager
async def storer(url: str) -> AsyncIterator[Drain]:
    """Lease, then store vectors and delete in one transaction."""
    async with connected(url) as db:
        await db.set_type_codec(
            "vector", schema="public", encoder=vectors.as_sent, decoder=vectors.decode, format="binary"
        )
        vector = ones(DIMENSIONS)

        async def drain() -> int:
            done = 0
            while leased := await db.fetch(LEASE):
                ids = [row[0] for row in leased]
                sent = vectors.encode_all([vector] * len(ids))
                async with db.transaction():
                    await db.execute(STORE, ids, [row[3] for row in leased], sent)
                    await db.execute(FINISH, ids)
                done += len(leased)
            return done

        yield drain
