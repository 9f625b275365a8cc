"""Shared by all tests: readable failures inside the shipped suites, and what the processes of a test begin with."""

import pytest
from tests.memory import keep_files_in_memory
from tests.signals import give_children_their_signals

give_children_their_signals()
keep_files_in_memory()

pytest.register_assert_rewrite("embedq.testing")
pytest_plugins = ["embedq.testing.postgres.fixtures", "tests.installed"]
