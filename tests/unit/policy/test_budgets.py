"""How much the fleet may ask of a provider."""

from datetime import timedelta

import pytest

from embedq.embedding import EmbedderLimits, Spending
from embedq.model import Budget
from embedq.policy.budgets import blocking, budget_of

MINUTE = timedelta(minutes=1)
LOG = [(30, 1, 10), (20, 2, 50), (10, 1, 5)]  # newest first: when, requests, tokens


@pytest.mark.parametrize(
    ("requests", "tokens", "spending", "at"),
    [
        (5, None, Spending(), None),
        (4, None, Spending(), 10),
        (3, None, Spending(), 20),
        (4, None, Spending(requests=2), 20),
        (4, None, Spending(requests=4), 30),
        (None, 66, Spending(tokens=1), None),
        (None, 65, Spending(tokens=1), 10),
        (None, 60, Spending(tokens=1), 20),
        (None, 10, Spending(tokens=1), 30),
        (None, 65, Spending(tokens=0), None),
        (5, 65, Spending(tokens=1), 10),
        (4, 60, Spending(tokens=1), 20),
        (None, None, Spending(tokens=10**9), None),
    ],
)
def test_what_must_leave_the_window_first(
    requests: int | None, tokens: int | None, spending: Spending, at: int | None
) -> None:
    """The newest spending with which the wanted one would be too much, by either bound."""
    assert blocking(LOG, Budget(requests=requests, tokens=tokens, interval=MINUTE), spending) == at


def test_what_is_larger_than_the_whole_budget_needs_an_empty_window() -> None:
    """All that was spent must leave first; then it goes, or it would wait for ever."""
    budget, spending = Budget(requests=2, tokens=9, interval=MINUTE), Spending(requests=3, tokens=10)

    assert blocking(LOG, budget, spending) == 30
    assert blocking([], budget, spending) is None


BY_HAND = Budget(requests=2, interval=timedelta(seconds=1))


@pytest.mark.parametrize(
    ("asked", "limits", "found"),
    [
        (None, EmbedderLimits(inputs=1), None),
        (BY_HAND, EmbedderLimits(inputs=1), BY_HAND),
        (BY_HAND, EmbedderLimits(inputs=1, requests_per_minute=9), BY_HAND),
        (None, EmbedderLimits(inputs=1, requests_per_minute=9), Budget(requests=9, interval=MINUTE)),
        (None, EmbedderLimits(inputs=1, tokens_per_minute=9), Budget(requests=None, tokens=9, interval=MINUTE)),
    ],
)
def test_a_budget_is_set_by_hand_or_by_what_is_known(
    asked: Budget | None, limits: EmbedderLimits, found: Budget | None
) -> None:
    """What a person has set wins over what an embedder is known to take per minute."""
    assert budget_of(asked, limits) == found
