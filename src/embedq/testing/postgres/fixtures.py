"""The pytest plugin: servers shared by all workers of a run, and a database of its own for each test.

Name it in a conftest: `pytest_plugins = ["embedq.testing.postgres.fixtures"]`. A test that asks for `postgres_url` gets
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
    """Where PostgreSQL 18 answers; not to be stopped or killed by a test."""
    return join(request, tmp_path_factory, 18)


@pytest.fixture(scope="session")
def postgres16(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PostgresAddress:
    """Where PostgreSQL 16 answers; not to be stopped or killed by a test."""
    return join(request, tmp_path_factory, 16)


@pytest.fixture
def postgres_version() -> int:
    """Which version `postgres_url` is on."""
    return 18


@pytest.fixture
def postgres_template() -> str:
    """Which database the test's own is a copy of; override it to start from one that is set up already."""
    return "template1"


@pytest.fixture
def postgres_server(request: pytest.FixtureRequest, postgres_version: int) -> PostgresAddress:
    """Which server `postgres_url` is on."""
    server: PostgresAddress = request.getfixturevalue(f"postgres{postgres_version}")
    return server


@pytest.fixture
def postgres_url(postgres_server: PostgresAddress, postgres_template: str) -> Iterator[str]:
    """The URL of an empty database that is this test's own."""
    name = f"test_{uuid4().hex}"
    yield postgres_server.create_database(name, template=postgres_template)
    postgres_server.drop_database(name)


def unavailable(reason: str) -> NoReturn:
    """End a test that has no server: skipped, or failed where servers are promised (`CI` is set)."""
    if os.environ.get("CI", "").lower() in {"", "0", "false"}:
        pytest.skip(reason)
    pytest.fail(reason)


def join(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    version: int,
    *,
    binaries: Path | None = None,
    fsync: bool = True,
) -> PostgresAddress:
    """Use a server that all workers of the run share, the first of whom starts it; without its programs, end the test.

    Args:
        request: Of a fixture of the session.
        tmp_path_factory: Knows the run's folder.
        version: Of the server.
        binaries: See `PostgresServer`; `fsync` too.
        fsync: Off where durability is not what is tested.
    """
    own = tmp_path_factory.getbasetemp()
    folder = own.parent if hasattr(request.config, "workerinput") else own
    shared = SharedServer(folder, version, binaries=binaries, fsync=fsync)
    # Leaving may wait for other workers: after the session, where no test's time runs.
    request.config.add_cleanup(shared.leave)
    try:
        return shared.join()
    except PostgresUnavailable as error:
        unavailable(str(error))
