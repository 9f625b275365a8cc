"""What attaching a table costs the application: its INSERT with our trigger, beside the same table without.

Statements of 1,000 rows and of one, each a commit, in turns statement by statement. Nobody works on the notes that the
trigger writes, as between two rounds of upkeep.
"""

from collections.abc import Callable
from functools import partial
from itertools import count
from time import perf_counter

import asyncpg

import embedq
from figure import Figure, Scale, beside, taking_turns
from postgres.ground import connected, database, server
from texts import text

TABLES = ("plain", "attached")
CREATE = "CREATE TABLE {} (id bigint PRIMARY KEY, title text NOT NULL, body text NOT NULL, changed_at timestamptz)"
INSERT = """
INSERT INTO {} SELECT u.id, 'A title', u.body, now() FROM unnest($1::bigint[], $2::text[]) u (id, body)
"""
MANY = 1000


async def measure(scale: Scale) -> list[Figure]:
    """Measure milliseconds per statement."""
    large, single = scale.pick(200, 40), scale.pick(3_000, 300)
    with server() as running, database(running) as url:
        async with connected(url) as db:
            for name in TABLES:
                await db.execute(CREATE.format(name))
            async with embedq.open(url, embedder="fake") as eq:
                await eq.tables.attach("attached", key=["id"], text=["title", "body"])
            numbers = count()
            acts = {size: [partial(_insert, db, name, size, numbers.__next__) for name in TABLES] for size in (MANY, 1)}
            await taking_turns(10, *acts[MANY], *acts[1])  # to be warm
            many_plain, many = await taking_turns(large, *acts[MANY])
            one_plain, one = await taking_turns(single, *acts[1])
    what = "the same table without the trigger"
    return [
        beside(
            "PostgreSQL, INSERT of 1,000 rows into an attached table", many, many_plain, "ms", what=what, at_most=1.3
        ),
        beside("PostgreSQL, INSERT of one row into an attached table", one, one_plain, "ms", what=what, at_most=1.3),
    ]


async def _insert(db: asyncpg.Connection, table: str, rows: int, number: Callable[[], int]) -> float:
    ids = [number() for _ in range(rows)]
    texts = [text(id_) for id_ in ids]
    started = perf_counter()
    await db.execute(INSERT.format(table), ids, texts)
    return 1000 * (perf_counter() - started)
