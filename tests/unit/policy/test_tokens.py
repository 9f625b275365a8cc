"""How many tokens texts have, and which go into one call."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedq.embedding import EmbedderLimits
from embedq.model import Budget
from embedq.policy.tokens import estimated, most_tokens, packed


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 1), ("a", 1), ("ab", 1), ("abc", 2), ("a" * 1000, 500), ("東京", 3), ("🚲", 2), ("\ud83d", 2)],
)
def test_an_estimate_is_half_the_bytes(text: str, tokens: int) -> None:
    """No text has less than one token; what is not Unicode is counted too."""
    assert estimated(text) == tokens


@pytest.mark.parametrize(
    ("sizes", "inputs", "tokens", "calls"),
    [
        ([], 3, 10, []),
        ([1, 1, 1, 1], 3, None, [[1, 1, 1], [1]]),
        ([1, 1, 1, 1], 3, 100, [[1, 1, 1], [1]]),
        ([4, 6, 1], 9, 10, [[4, 6], [1]]),
        ([4, 7, 3], 9, 10, [[4], [7, 3]]),
        ([11], 9, 10, [[11]]),
        ([1, 11, 1], 9, 10, [[1], [11], [1]]),
        ([5, 5], 0, 10, [[5], [5]]),
    ],
)
def test_calls_are_packed_by_inputs_and_tokens(
    sizes: list[int], inputs: int, tokens: int | None, calls: list[list[int]]
) -> None:
    """Whichever is reached first ends a call; a text that is too large goes alone."""
    assert [list(call) for call in packed(sizes, inputs=inputs, tokens=tokens, count=lambda size: size)] == calls


@given(sizes=st.lists(st.integers(1, 50), max_size=60), inputs=st.integers(1, 9), tokens=st.none() | st.integers(1, 60))
def test_nothing_is_lost_and_no_call_is_too_large(sizes: list[int], inputs: int, tokens: int | None) -> None:
    """All texts come in their order, and a call over its tokens has one text."""
    calls = packed(sizes, inputs=inputs, tokens=tokens, count=lambda size: size)

    assert [size for call in calls for size in call] == sizes
    assert all(1 <= len(call) <= inputs for call in calls)
    assert all(tokens is None or sum(call) <= tokens or len(call) == 1 for call in calls)


@pytest.mark.parametrize(
    ("per_call", "budget", "most"), [(None, None, None), (9, None, 9), (None, 7, 7), (9, 7, 7), (5, 7, 5)]
)
def test_a_call_is_no_larger_than_the_embedder_and_the_budget_take(
    per_call: int | None, budget: int | None, most: int | None
) -> None:
    """The smaller of both bounds holds; where neither is known, there is none."""
    limits = EmbedderLimits(inputs=1, tokens_per_call=per_call)
    bound = Budget(requests=1, tokens=budget, interval=timedelta(minutes=1)) if budget else None

    assert most_tokens(limits, bound) == most
