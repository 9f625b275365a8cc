"""What counts in a ranking."""

import pytest

from embedq.policy.ranking import without_stop_words


@pytest.mark.parametrize(
    ("asked", "counts"),
    [
        ("pastry and croissants", "pastry croissants"),
        ("What must never be written to a log file?", "never written log file?"),
        ("The Loom", "Loom"),
        ("to be or not to be", "to be or not to be"),
        ("C++ in 21 days", "C++ 21 days"),
        ("Brot und Butter", "Brot und Butter"),
    ],
)
def test_fillers_do_not_count(asked: str, counts: str) -> None:
    """Words that stand in every text are left out, unless the query is made of nothing else."""
    assert without_stop_words(asked) == counts
