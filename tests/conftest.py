"""Shared by all tests: readable failures inside the shipped suites, and the signals that children are tested with."""

import signal

import pytest

# Ignored where a script runs the tests in the background, and inherited by every process that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)

pytest.register_assert_rewrite("embedq.testing")
pytest_plugins = ["embedq.testing.postgres.fixtures"]
