"""What the fleet may ask of a provider: a log of requests per space, and holds."""

from datetime import datetime, timedelta
from typing import Any

from embedq.model import Budget, SpaceId
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.moments import NOW

TAKE = "SELECT embedq.take_request($1, $2, $3, $4)"

# The longest hold wins, unless it was set before the clock was set back.
HOLD = f"""
UPDATE embedq.space SET held_since = {NOW}, held_until = CASE WHEN held_since > {NOW} + interval '1 second'
  THEN {NOW} + $3 ELSE greatest(held_until, {NOW} + $3) END WHERE id = $2
"""
STATE = f"""
SELECT s.id, (SELECT count(*) FROM embedq.request q WHERE q.space = s.id) AS requests,
  CASE WHEN s.held_until > {NOW} THEN date_part('epoch', s.held_until - {NOW}) ELSE 0 END AS held
FROM embedq.space s WHERE s.id IN (SELECT space FROM embedq.collection WHERE name IS NOT NULL)
"""


async def take(database: Database, space: SpaceId, budget: Budget | None, now: datetime | None) -> timedelta:
    """Take one request; zero: go, else how long to wait. No span of the budget's length ever sees more."""
    limits = (None, None) if budget is None else (budget.requests, budget.interval)
    wait: timedelta = await database.call(TAKE, space, *limits, now)
    return wait


async def states(database: Database, now: datetime | None) -> dict[SpaceId, dict[str, Any]]:
    """Say what the window has seen and how long holds last."""
    rows = await database.fetch(STATE, now)
    return {SpaceId(row["id"]): {"requests": row["requests"], "held_seconds": row["held"]} for row in rows}
