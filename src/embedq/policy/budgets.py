"""The fleet's rate limit per provider, over a sliding window."""

from collections.abc import Iterable
from datetime import timedelta

from embedq.embedding import EmbedderLimits, Spending
from embedq.model import Budget

MINUTE = timedelta(minutes=1)
Spent = tuple[int, int, int]  # when, requests, tokens


def budget_of(asked: Budget | None, limits: EmbedderLimits) -> Budget | None:
    """Return an embedder's budget: the configured one, else its known limits per minute."""
    if asked is not None or (limits.requests_per_minute is None and limits.tokens_per_minute is None):
        return asked
    return Budget(requests=limits.requests_per_minute, tokens=limits.tokens_per_minute, interval=MINUTE)


def blocking(log: Iterable[Spent], budget: Budget, spending: Spending) -> int | None:
    """Return the time of the entry that must leave the window before there is room. None: there is room now.

    A request larger than the whole budget goes when the window is empty: it would wait forever otherwise.

    Args:
        log: The entries in the window, newest first.
        budget: The limits.
        spending: The request.
    """
    requests, tokens = spending.requests, spending.tokens
    for at, spent, used in log:
        requests, tokens = requests + spent, tokens + used
        if _exceeds(requests, budget.requests) or _exceeds(tokens, budget.tokens):
            return at
    return None


def _exceeds(sum_: int, bound: int | None) -> bool:
    return bound is not None and sum_ > bound
