"""Shared by all tests: readable failures inside the shipped suites, and the signals that children are tested with."""

import pytest
from tests.signals import give_children_their_signals

give_children_their_signals()

pytest.register_assert_rewrite("embedq.testing")
pytest_plugins = ["embedq.testing.postgres.fixtures", "tests.installed"]
