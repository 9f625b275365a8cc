"""What the workers may request from a provider: a log of requests and tokens per space, and holds."""

from datetime import datetime, timedelta
from typing import Any

from embedq.embedding import Spending
from embedq.model import Budget, SpaceId
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.moments import NOW

TAKE = "SELECT embedq.take_budget(embedq.space_number($1), $2, $3, $4, $5, $6, $7)"

# The longest hold wins, unless it was set before the clock was set back.
HOLD = f"""
UPDATE embedq.space SET held_since = {NOW}, held_until = CASE WHEN held_since > {NOW} + interval '1 second'
  THEN {NOW} + $3 ELSE greatest(held_until, {NOW} + $3) END WHERE id = embedq.space_number($2)
"""
STATE = f"""
SELECT embedq.name_of(s) AS name, q.requests, q.tokens,
  CASE WHEN s.held_until > {NOW} THEN date_part('epoch', s.held_until - {NOW}) ELSE 0 END AS held
FROM embedq.space s CROSS JOIN LATERAL (
  SELECT coalesce(sum(r.requests), 0)::bigint AS requests, coalesce(sum(r.tokens), 0)::bigint AS tokens
  FROM embedq.request r WHERE r.space = s.id) q
WHERE s.id IN (SELECT space FROM embedq.collection WHERE name IS NOT NULL)
"""


async def take(
    database: Database, space: SpaceId, budget: Budget | None, spending: Spending, now: datetime | None
) -> timedelta:
    """Take requests and tokens; return zero to go, else how long to wait. No window ever exceeds the budget."""
    limits = (None, None, None) if budget is None else (budget.requests, budget.tokens, budget.interval)
    wait: timedelta = await database.call(TAKE, space, *limits, spending.requests, spending.tokens, now)
    return wait


async def states(database: Database, now: datetime | None) -> dict[SpaceId, dict[str, Any]]:
    """Return what the window contains and how long holds last."""
    rows = await database.fetch(STATE, now)
    return {
        SpaceId(row["name"]): {"requests": row["requests"], "tokens": row["tokens"], "held_seconds": row["held"]}
        for row in rows
    }
