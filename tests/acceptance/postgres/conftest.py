"""Real processes on PostgreSQL: on a database of a server that all share, or on a server that may be broken."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.acceptance.hosts import Host
from tests.acceptance.postgres.network import Network
from tests.acceptance.processes import Place

from embedq.testing.postgres import PostgresServer, PostgresUnavailable
from embedq.testing.postgres.fixtures import unavailable

MakeServer = Callable[..., PostgresServer]


@pytest.fixture
def postgres_template(installed: str) -> str:
    """Copy a database that has the schema."""
    return installed


@pytest.fixture
def place(tmp_path: Path, postgres_url: str) -> Iterator[Place]:
    """On a database of its own on the shared server."""
    made = Place(tmp_path, postgres_url)
    yield made
    made.close()


@pytest.fixture
def make_server() -> Iterator[MakeServer]:
    """Start servers that a test may stop, kill and follow."""
    servers: list[PostgresServer] = []

    def make(**options: object) -> PostgresServer:
        try:
            server = PostgresServer(18, fsync=False, **options)  # type: ignore[arg-type]  # processes die here, not machines
        except PostgresUnavailable as error:
            unavailable(str(error))
        servers.append(server)
        return server.start()

    yield make
    for server in servers:
        server.stop(immediate=True)


@pytest.fixture
def server(make_server: MakeServer) -> PostgresServer:
    """A server of the test's own."""
    return make_server()


@pytest.fixture
def own_place(tmp_path: Path, server: PostgresServer) -> Iterator[Place]:
    """On that server."""
    made = Place(tmp_path, server.url())
    yield made
    made.close()


@pytest.fixture
def network(make_server: MakeServer, tmp_path: Path) -> Iterator[Network]:
    """A server and two hosts with cables to it."""
    with ExitStack() as stack:
        hosts = [stack.enter_context(Host(name)) for name in ("loom", "mill")]
        server = make_server(listen=["127.0.0.1", *(host.gateway for host in hosts)])
        place = Place(tmp_path, server.url())
        stack.callback(place.close)
        yield Network(server, hosts, place)
