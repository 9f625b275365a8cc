"""The pytest plugin: servers shared by all workers of a run, and a separate database for each test.

Name it in a conftest: `pytest_plugins = ["embedq.testing.postgres.fixtures"]`. A test that uses `postgres_url` gets
PostgreSQL 18; it parametrises `postgres_version`, or a class overrides that fixture, to get another; and it overrides
`postgres_server` for one of another build, which `join` starts. Without the programs such a test is skipped on a laptop
and fails in CI.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

import pytest

from embedq.testing.postgres.address import PostgresAddress
from embedq.testing.postgres.binaries import PostgresUnavailable
from embedq.testing.postgres.shared import SharedServer


@pytest.fixture(scope="session")
def postgres18(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PostgresAddress:
    """The address of PostgreSQL 18; not to be stopped or killed by a test."""
    return join(request, tmp_path_factory, 18)


@pytest.fixture(scope="session")
def postgres16(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PostgresAddress:
    """The address of PostgreSQL 16; not to be stopped or killed by a test."""
    return join(request, tmp_path_factory, 16)


@pytest.fixture
def postgres_version() -> int:
    """The version that `postgres_url` is on."""
    return 18


@pytest.fixture
def postgres_template() -> str:
    """The database that the test's own is a copy of; override it to start from one that is set up already."""
    return "template1"


@pytest.fixture
def postgres_server(request: pytest.FixtureRequest, postgres_version: int) -> PostgresAddress:
    """The server that `postgres_url` is on."""
    server: PostgresAddress = request.getfixturevalue(f"postgres{postgres_version}")
    return server


@pytest.fixture
def postgres_url(postgres_server: PostgresAddress, postgres_template: str) -> Iterator[str]:
    """The URL of an empty database for this test alone."""
    name = f"test_{uuid4().hex}"
    yield postgres_server.create_database(name, template=postgres_template)
    postgres_server.drop_database(name)


def unavailable(reason: str) -> NoReturn:
    """End a test that has no server: skipped, or failed where servers are required (`CI` is set)."""
    if os.environ.get("CI", "").lower() in {"", "0", "false"}:
        pytest.skip(reason)
    pytest.fail(reason)


def join(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    version: int,
    *,
    binaries: Path | None = None,
) -> PostgresAddress:
    """Use a server that all workers of the run share, started by the first of them; without its programs, end the test.

    Args:
        request: Of a session fixture.
        tmp_path_factory: Has the run's folder.
        version: Of the server.
        binaries: See `PostgresServer`.
    """
    own = tmp_path_factory.getbasetemp()
    folder = own.parent if hasattr(request.config, "workerinput") else own
    shared = SharedServer(folder, version, binaries=binaries)
    # Leaving may wait for other workers: do it after the session, where no test's timeout runs.
    request.config.add_cleanup(shared.leave)
    try:
        return shared.join()
    except PostgresUnavailable as error:
        unavailable(str(error))
