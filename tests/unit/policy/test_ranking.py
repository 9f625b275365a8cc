"""How rankings by meaning and by words become one."""

import pytest

from embedq.model import Hit, RecordId
from embedq.policy.ranking import LEAST_WEIGHT, fuse, weight_of_words


def hit(name: str, *, share: float | None = None, stale: bool = False) -> Hit:
    return Hit(id=RecordId(name), score=1.0, text="", attributes={}, stale=stale, share=share)


@pytest.mark.parametrize(
    ("share", "weight"), [(0.0, LEAST_WEIGHT), (0.4, LEAST_WEIGHT), (0.5, 0.5), (0.6, 1.0), (1.7, 1.0)]
)
def test_words_count_by_how_much_of_the_query_the_best_record_holds(share: float, weight: float) -> None:
    """Up to two fifths of it they only break ties; from three fifths of it on they count as much as the meaning."""
    assert weight_of_words([hit("a", share=share), hit("b", share=2.0)]) == pytest.approx(weight)


def test_a_chance_word_does_not_outvote_the_meaning() -> None:
    """A paraphrase shares a word with another record: the order is that of the meaning, and the record comes last."""
    near, worded = [hit("a"), hit("b"), hit("c")], [hit("c", share=0.2), hit("d", share=0.1)]

    assert [found.id for found in fuse(near, worded, 10)] == ["a", "b", "c", "d"]


def test_words_that_say_much_lift_what_holds_them() -> None:
    """What is good by both comes before what is best by one."""
    near, worded = [hit("a"), hit("b"), hit("c")], [hit("c", share=0.9), hit("d", share=0.8)]

    assert [found.id for found in fuse(near, worded, 10)] == ["c", "a", "b", "d"]


def test_no_words_at_all_leave_the_meaning() -> None:
    """A query of which no word is known is answered by meaning."""
    assert [found.id for found in fuse([hit("a"), hit("b")], [], 1)] == ["a"]


def test_a_fused_hit_is_stale_if_its_vector_is() -> None:
    """Words find the current text, but its rank is that of the old one too."""
    assert fuse([hit("a", stale=True)], [hit("a", share=1.0)], 1)[0].stale
