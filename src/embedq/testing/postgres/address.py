"""The address of a PostgreSQL server, and the databases created there."""

import contextlib
import socket
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom
from urllib.parse import quote

from embedq.testing.postgres.binaries import PostgresFailed, run
from embedq.testing.postgres.process import wait_until

SUPERUSER = "postgres"
HOST = "127.0.0.1"
# Below the range of the system's outgoing ports: ours is not reused while the server is down.
_PORTS = range(20_000, 32_000)


@dataclass(eq=False)  # two instances are two servers
class PostgresAddress:
    """A server on loopback that trusts every connection."""

    version: int
    port: int
    binaries: Path

    def url(self, database: str = "postgres") -> str:
        """Return the URL of this database."""
        return f"postgresql://{SUPERUSER}@{HOST}:{self.port}/{quote(database, safe='')}"

    def create_database(self, name: str, *, template: str = "template1", vector: bool = False) -> str:
        """Create a database, with the extension `vector` only if requested, and return its URL."""
        # The other strategy writes every page of the template to the WAL, for twice the processor time.
        self.query(f"CREATE DATABASE {_quoted(name)} TEMPLATE {_quoted(template)} STRATEGY file_copy")
        if vector:
            self.query("CREATE EXTENSION vector", database=name)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Remove a database, and disconnect its clients."""
        self.query(f"DROP DATABASE IF EXISTS {_quoted(name)} WITH (FORCE)")

    def query(self, sql: str, *, database: str = "postgres") -> str:
        """Run one statement with psql, and return its bare output."""
        options = ["--no-psqlrc", "--tuples-only", "--no-align", "--quiet", "--set=ON_ERROR_STOP=1"]
        return run([self.binaries / "psql", *options, f"--dbname={self.url(database)}", f"--command={sql}"]).strip()

    def answers(self) -> bool:
        """Say whether it accepts a statement now."""
        try:
            return self.query("SELECT 1") == "1"
        except PostgresFailed:
            return False

    def wait_for_follower(self, name: str, state: str) -> None:
        """Wait until the standby of this name is in this state of replication (`streaming`, `sync`, …)."""
        sql = "SELECT application_name, state, sync_state FROM pg_stat_replication"

        def is_there() -> bool:
            rows = [line.split("|") for line in self.query(sql).splitlines()]
            return any(found == name and state in states for found, *states in rows)

        wait_until(is_there, seconds=60, what=f"{name} to be {state}")

    def commit_with(self, name: str) -> None:
        """Make every commit from now on wait until the standby of this name has it on disk."""
        self.query(f"ALTER SYSTEM SET synchronous_standby_names = {_text(name)}")
        self.query("SELECT pg_reload_conf()")
        self.wait_for_follower(name, "sync")


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def free_port() -> int:
    """Return a port that is free now."""
    for port in SystemRandom().sample(_PORTS, k=100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise PostgresFailed("No free port was found on loopback.")
