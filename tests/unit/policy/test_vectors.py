"""What an embedder may answer."""

import numpy as np
import pytest

from embedq.errors import Transient, Unavailable
from embedq.policy.vectors import checked


def test_a_good_answer_is_float32_rows() -> None:
    """Lists of numbers become one float32 row per text."""
    vectors = checked([[1, 2], [3, 4]], texts=2, dimensions=2)

    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ([[1.0, 2.0]], "wrong_count"),
        ([[1.0], [2.0], [3.0]], "wrong_count"),
        ([1.0, 2.0], "wrong_count"),
        ([[], []], "wrong_count"),
        ([[1.0, 2.0], [3.0]], "bad_answer"),
        ([["a"], ["b"]], "bad_answer"),
        (None, "wrong_count"),
        ([[1.0, float("nan")], [1.0, 2.0]], "not_finite"),
        ([[1.0, float("inf")], [1.0, 2.0]], "not_finite"),
    ],
)
def test_a_broken_answer_is_transient(answer: object, code: str) -> None:
    """A wrong count, a ragged table, NaN and infinity may go better another time."""
    with pytest.raises(Transient) as caught:
        checked(answer, texts=2, dimensions=None)

    assert caught.value.provider_code == code


def test_other_dimensions_are_the_embedders_fault() -> None:
    """A vector of another space must never meet this one's."""
    with pytest.raises(Unavailable) as caught:
        checked([[1.0, 2.0]], texts=1, dimensions=3)

    assert caught.value.provider_code == "wrong_dimensions"
