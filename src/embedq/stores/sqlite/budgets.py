"""What the workers may request from a provider: a log of requests and tokens per space, and holds."""

import sqlite3
from datetime import timedelta
from typing import Any

from embedq.embedding import Spending
from embedq.model import Budget, SpaceId
from embedq.policy import budgets as policy
from embedq.stores.sqlite.collections import NUMBER_OF, SPACE_NAME
from embedq.stores.sqlite.moments import SET_BACK, span
from embedq.stores.sqlite.transaction import Transaction

NUMBER = f"SELECT {NUMBER_OF.format('?')}"
HELD = "SELECT held_until FROM embedq_space WHERE id = ? AND held_until > ? AND held_since <= ?"

# The longest hold wins, unless it was set before the clock was set back.
HOLD = f"""
UPDATE embedq_space SET held_until = CASE WHEN held_since > ?2 + 1000 THEN ?1 ELSE max(held_until, ?1) END,
  held_since = ?2 WHERE id = {NUMBER_OF.format("?3")}
"""
FORGET_REQUESTS = "DELETE FROM embedq_request WHERE space = ? AND (at <= ? OR at > ?)"

# What the window contains: in sum, and one by one.
SEEN = "SELECT coalesce(sum(requests), 0), coalesce(sum(tokens), 0) FROM embedq_request WHERE space = ?"
NEWEST_FIRST = "SELECT at, requests, tokens FROM embedq_request WHERE space = ? ORDER BY at DESC, n DESC"
NOTE = """
INSERT INTO embedq_request (space, at, n, requests, tokens)
SELECT ?1, ?2, coalesce(max(n) + 1, 0), ?3, ?4 FROM embedq_request WHERE space = ?1 AND at = ?2
"""
STATE = f"""
SELECT {SPACE_NAME}, coalesce(sum(q.requests), 0), coalesce(sum(q.tokens), 0), max(0, s.held_until - ?1)
FROM embedq_space s LEFT JOIN embedq_request q ON q.space = s.id
WHERE s.id IN (SELECT space FROM embedq_collection WHERE name IS NOT NULL) GROUP BY s.id
"""


def take(tx: Transaction, space: SpaceId, budget: Budget | None, spending: Spending, now: int) -> timedelta:
    """Take requests and tokens; return zero to go, else how long to wait. No window ever exceeds the budget.

    A refusal is a hold until the budget refills: no worker leases jobs that could not be embedded now.
    """
    (number,) = tx.db.execute(NUMBER, (space,)).fetchone()
    row = tx.db.execute(HELD, (number, now, now + SET_BACK)).fetchone()
    if row is not None:
        return timedelta(milliseconds=row[0] - now)
    if budget is None or number is None:  # the space is not known to this queue yet
        return timedelta(0)
    interval = span(budget.interval)
    tx.db.execute(FORGET_REQUESTS, (number, now - interval, now + SET_BACK))
    blocking = _blocking(tx.db, number, budget, spending)
    if blocking is not None:
        wait = timedelta(milliseconds=max(1, blocking + interval - now))
        hold(tx, space, wait, now)
        return wait
    tx.db.execute(NOTE, (number, now, spending.requests, spending.tokens))
    return timedelta(0)


def _blocking(db: sqlite3.Connection, space: int, budget: Budget, spending: Spending) -> int | None:
    """Find what must leave the window first; mostly there is room, and the sums show that without a scan."""
    seen = db.execute(SEEN, (space,)).fetchone()
    if policy.blocking([(0, *seen)], budget, spending) is None:
        return None
    return policy.blocking(db.execute(NEWEST_FIRST, (space,)), budget, spending)


def hold(tx: Transaction, space: SpaceId, length: timedelta, now: int) -> None:
    """Stop all requests to a provider for a span; the longest hold wins."""
    tx.db.execute(HOLD, (now + span(length), now, space))


def states(db: sqlite3.Connection, now: int) -> dict[SpaceId, dict[str, Any]]:
    """Return what the window contains and how long holds last."""
    rows = db.execute(STATE, (now,))
    return {
        SpaceId(space): {"requests": requests, "tokens": tokens, "held_seconds": held / 1000}
        for space, requests, tokens, held in rows
    }
