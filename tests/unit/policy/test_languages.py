"""The words of a query."""

import pytest

from embedq.policy.languages import without_stop_words, words_of


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("state-of-the-art", ["state", "of", "the", "art"]),
        ("To be, or not to be?", ["to", "be", "or", "not"]),
        ("Ärzte/Ärztinnen_2", ["ärzte", "ärztinnen_2"]),
        ("... ?!", []),
    ],
)
def test_words_are_runs_of_letters_and_digits(asked: str, words: list[str]) -> None:
    """Whatever stands between them splits them, and each counts once."""
    assert words_of(asked) == words


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        (["pastry", "and", "croissants"], ["pastry", "croissants"]),
        (["to", "be", "or", "not"], ["to", "be", "or", "not"]),
        (["brot", "und", "butter"], ["brot", "und", "butter"]),
    ],
)
def test_stop_words_do_not_count(words: list[str], counts: list[str]) -> None:
    """Words that stand in every text are left out, unless the query is made of nothing else."""
    assert without_stop_words(words) == counts
