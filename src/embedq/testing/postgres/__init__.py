"""Throwaway PostgreSQL servers for tests and benchmarks.

A server is a real `postgres` on a loopback port, with its data in a temporary directory; it is removed when it is
stopped, when Python exits, and when Python is killed. `python -m embedq.testing.postgres --version 18` runs one by
hand, and `embedq.testing.postgres.fixtures` is the pytest plugin that gives each test its own database.

All calls block. In a running event loop use `await asyncio.to_thread(server.restart)`.
"""

from embedq.testing.postgres.address import PostgresAddress
from embedq.testing.postgres.binaries import PostgresFailed, PostgresUnavailable
from embedq.testing.postgres.pgbouncer import Pgbouncer
from embedq.testing.postgres.server import PostgresServer

__all__ = ["Pgbouncer", "PostgresAddress", "PostgresFailed", "PostgresServer", "PostgresUnavailable"]
