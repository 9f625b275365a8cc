"""A server, the API beside it, and hosts with workers that reach it over cables of their own."""

from collections.abc import Sequence
from dataclasses import dataclass

from tests.acceptance.hosts import Host
from tests.acceptance.processes import Place, Process

from embedq.testing.postgres import PostgresServer


@dataclass(frozen=True)
class Network:
    """One server and several hosts; the place is on the server's own machine."""

    server: PostgresServer
    hosts: Sequence[Host]
    place: Place

    def work_on(self, host: Host, **settings: object) -> Process:
        """Start workers on a host, and wait until they run."""
        url = f"postgresql://postgres@{host.gateway}:{self.server.port}/postgres"
        process = self.place.wrapped(host.wrapper, "work", EMBEDQ_URL=url, **settings)
        process.heard("started")
        return process
