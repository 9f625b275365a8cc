"""How much memory and how many parallel workers a server gives to the build of an ANN index."""

from embedq.stores.postgres.connection import Connection

MEMORY_MB = 1024  # the most that a build takes, unless the server's own maintenance_work_mem is more
LEAST_BYTES = 64 << 20  # with less, the server gives no parallel workers
LINK_BYTES = 800  # of one vector's links and bookkeeping while the graph is in memory
SPARE = 1.1  # vectors are stored meanwhile, and those of edited texts are not counted

# A build with parallel workers takes all of its memory at once, so it gets what its graph needs and not what a server
# would allow. How many workers is the administrator's choice; where nobody has chosen, half of what the server has.
TUNE = """
SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false),
  set_config('maintenance_work_mem', format('%skB', least($1::bigint, greatest($2::bigint, m.setting::bigint))), false),
  set_config('max_parallel_maintenance_workers', CASE
    WHEN NOT $3 THEN '0' WHEN w.source <> 'default' THEN w.setting
    ELSE greatest(w.setting::int, p.setting::int / 2)::text END, false)
FROM pg_settings m, pg_settings w, pg_settings p WHERE m.name = 'maintenance_work_mem'
  AND w.name = 'max_parallel_maintenance_workers' AND p.name = 'max_parallel_workers'
"""


def graph_bytes(vectors: int, vector_bytes: int) -> int:
    """Estimate the memory that a graph of so many vectors takes while it is built."""
    return int(vectors * SPARE * (vector_bytes + LINK_BYTES))


async def tune(db: Connection, needed: int, memory_mb: int, *, parallel: bool) -> None:
    """Set up a session for a build: no timeouts, memory for the graph within bounds, and parallel workers or none."""
    await db.execute(TUNE, max(needed, LEAST_BYTES) >> 10, memory_mb << 10, parallel)
