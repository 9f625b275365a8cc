"""What the tests of a start and an end compare with."""

import pytest
from tests.unit import leftovers


@pytest.fixture(autouse=True)
def _threads_of_before() -> None:
    leftovers.note_threads()
