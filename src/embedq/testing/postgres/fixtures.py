"""The pytest plugin: servers shared by all workers of a run, and a database of its own for each test.

Name it in a conftest: `pytest_plugins = ["embedq.testing.postgres.fixtures"]`. A test that asks for `postgres_url` gets
PostgreSQL 18; it parametrises `postgres_version`, or a class overrides that fixture, to get another. Without the
programs such a test is skipped on a laptop and fails in CI.
"""

import os
from collections.abc import Iterator
from typing import NoReturn
from uuid import uuid4

import pytest

from embedq.testing.postgres.address import PostgresAddress
from embedq.testing.postgres.binaries import PostgresUnavailable
from embedq.testing.postgres.shared import SharedServer


@pytest.fixture(scope="session")
def postgres18(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PostgresAddress:
    """Where PostgreSQL 18 answers; not to be stopped or killed by a test."""
    return _join(18, request, tmp_path_factory)


@pytest.fixture(scope="session")
def postgres16(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PostgresAddress:
    """Where PostgreSQL 16 answers; not to be stopped or killed by a test."""
    return _join(16, request, tmp_path_factory)


@pytest.fixture
def postgres_version() -> int:
    """Which version `postgres_url` is on."""
    return 18


@pytest.fixture
def postgres_template() -> str:
    """Which database the test's own is a copy of; override it to start from one that is set up already."""
    return "template1"


@pytest.fixture
def postgres_url(request: pytest.FixtureRequest, postgres_version: int, postgres_template: str) -> Iterator[str]:
    """The URL of an empty database that is this test's own."""
    server: PostgresAddress = request.getfixturevalue(f"postgres{postgres_version}")
    name = f"test_{uuid4().hex}"
    yield server.create_database(name, template=postgres_template)
    server.drop_database(name)


def unavailable(reason: str) -> NoReturn:
    """End a test that has no server: skipped, or failed where servers are promised (`CI` is set)."""
    if os.environ.get("CI", "").lower() in {"", "0", "false"}:
        pytest.skip(reason)
    pytest.fail(reason)


def _join(version: int, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PostgresAddress:
    own = tmp_path_factory.getbasetemp()
    shared = SharedServer(own.parent if hasattr(request.config, "workerinput") else own, version)
    # Leaving may wait for other workers: after the session, where no test's time runs.
    request.config.add_cleanup(shared.leave)
    try:
        return shared.join()
    except PostgresUnavailable as error:
        unavailable(str(error))
