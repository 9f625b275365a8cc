"""What the fleet may ask of a provider: a log of requests per space, and holds."""

import sqlite3
from datetime import timedelta
from typing import Any

from embedq.model import Budget, SpaceId
from embedq.stores.sqlite.moments import SET_BACK, span
from embedq.stores.sqlite.transaction import Transaction

HELD = "SELECT held_until FROM embedq_space WHERE id = ? AND held_until > ? AND held_since <= ?"

# The longest hold wins, unless it was set before the clock was set back.
HOLD = """
UPDATE embedq_space SET held_until = CASE WHEN held_since > ?2 + 1000 THEN ?1 ELSE max(held_until, ?1) END,
  held_since = ?2 WHERE id = ?3
"""
FORGET_REQUESTS = "DELETE FROM embedq_request WHERE space = ? AND (at <= ? OR at > ?)"

# The request that must leave the window before the next may go.
BLOCKING = "SELECT at FROM embedq_request WHERE space = ? ORDER BY at DESC, n DESC LIMIT 1 OFFSET ?"
NOTE = """
INSERT INTO embedq_request SELECT ?1, ?2, coalesce(max(n) + 1, 0) FROM embedq_request WHERE space = ?1 AND at = ?2
"""
STATE = """
SELECT s.id, (SELECT count(*) FROM embedq_request q WHERE q.space = s.id), max(0, s.held_until - ?1)
FROM embedq_space s WHERE s.id IN (SELECT space FROM embedq_collection WHERE name IS NOT NULL)
"""


def take(tx: Transaction, space: SpaceId, budget: Budget | None, now: int) -> timedelta:
    """Take one request; zero: go, else how long to wait. No span of the budget's length ever sees more.

    A refusal is a hold until the budget refills: nobody leases jobs that could not be embedded now.
    """
    row = tx.db.execute(HELD, (space, now, now + SET_BACK)).fetchone()
    if row is not None:
        return timedelta(milliseconds=row[0] - now)
    if budget is None:
        return timedelta(0)
    interval = span(budget.interval)
    tx.db.execute(FORGET_REQUESTS, (space, now - interval, now + SET_BACK))
    blocking = tx.db.execute(BLOCKING, (space, budget.requests - 1)).fetchone()
    if blocking is not None:
        wait = timedelta(milliseconds=max(1, blocking[0] + interval - now))
        hold(tx, space, wait, now)
        return wait
    tx.db.execute(NOTE, (space, now))
    return timedelta(0)


def hold(tx: Transaction, space: SpaceId, length: timedelta, now: int) -> None:
    """Keep the whole fleet from asking for a span; the longest hold wins."""
    tx.db.execute(HOLD, (now + span(length), now, space))


def states(db: sqlite3.Connection, now: int) -> dict[SpaceId, dict[str, Any]]:
    """Say what the window has seen and how long holds last."""
    rows = db.execute(STATE, (now,))
    return {SpaceId(space): {"requests": seen, "held_seconds": held / 1000} for space, seen, held in rows}
