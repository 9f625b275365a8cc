"""What words weigh, and which of them choose records."""

from math import log

import pytest

from embedq.policy.bm25 import LEAST_WEIGHT, rarest, weight


@pytest.mark.parametrize(
    ("records", "matches", "expected"),
    [
        (100, 1, log(99.5 / 1.5)),
        (100, 0, log(100.5 / 0.5)),
        (100, 49, log(51.5 / 49.5)),
        (100, 50, LEAST_WEIGHT),
        (100, 100, LEAST_WEIGHT),
        (0, 0, LEAST_WEIGHT),
        (5, 9, LEAST_WEIGHT),
    ],
)
def test_a_word_weighs_by_how_few_records_hold_it(records: int, matches: int, expected: float) -> None:
    """A word of half of the records or more weighs next to nothing, and never less than that."""
    assert weight(records, matches) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("matches", "chosen"),
    [
        ({"a": 4, "b": 6}, ["a", "b"]),
        ({"common": 11, "rare": 2}, ["rare"]),
        ({"b": 6, "a": 5, "none": 0}, ["none", "a"]),
        ({"common": 11, "more": 12}, []),
    ],
)
def test_the_rarest_words_choose(matches: dict[str, int], chosen: list[str]) -> None:
    """As many as stand in no more than ten records together; none, where each stands in more."""
    assert rarest(matches, 10) == chosen
