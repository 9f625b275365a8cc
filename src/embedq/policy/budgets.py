"""How much the fleet may ask of a provider: no span of the budget's length ever sees more."""

from collections.abc import Iterable
from datetime import timedelta

from embedq.embedding import EmbedderLimits, Spending
from embedq.model import Budget

MINUTE = timedelta(minutes=1)
Spent = tuple[int, int, int]  # when, requests, tokens


def budget_of(asked: Budget | None, limits: EmbedderLimits) -> Budget | None:
    """Say what binds an embedder: what a person has set, else what it is known to take per minute."""
    if asked is not None or (limits.requests_per_minute is None and limits.tokens_per_minute is None):
        return asked
    return Budget(requests=limits.requests_per_minute, tokens=limits.tokens_per_minute, interval=MINUTE)


def blocking(log: Iterable[Spent], budget: Budget, spending: Spending) -> int | None:
    """Find when the spending was that must leave the window before there is room. None: there is room now.

    What is larger than the whole budget needs an empty window, and goes then: it would wait for ever otherwise.

    Args:
        log: What the window has seen, newest first.
        budget: What it may see.
        spending: What is wanted.
    """
    requests, tokens = spending.requests, spending.tokens
    for at, spent, used in log:
        requests, tokens = requests + spent, tokens + used
        if _exceeds(requests, budget.requests) or _exceeds(tokens, budget.tokens):
            return at
    return None


def _exceeds(sum_: int, bound: int | None) -> bool:
    return bound is not None and sum_ > bound
