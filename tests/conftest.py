"""Shared by all tests: failures inside the shipped suites are shown as readably as those in tests."""

import pytest

pytest.register_assert_rewrite("embedq.testing")
pytest_plugins = ["embedq.testing.postgres.fixtures"]
