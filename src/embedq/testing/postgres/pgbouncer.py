"""Debian's PgBouncer in front of a PostgreSQL server."""

import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote

from embedq.testing.postgres.address import HOST, SUPERUSER, PostgresAddress, free_port
from embedq.testing.postgres.binaries import PostgresFailed, PostgresUnavailable, account
from embedq.testing.postgres.home import PostgresHome
from embedq.testing.postgres.process import Daemon, wait_until

_PLACES = "/usr/sbin:/usr/local/sbin:/usr/local/bin:/usr/bin"  # Debian's is not on every user's path
_SETTINGS = """\
[databases]
* = host={host} port={server} user={user}
[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {sessions}
max_client_conn = 200
ignore_startup_parameters = {ignored}
"""


class Pgbouncer:
    """A pooler with few sessions, so that clients soon get one that another has used."""

    def __init__(
        self,
        server: PostgresAddress,
        *,
        sessions: int = 3,
        mode: Literal["transaction", "session"] = "transaction",
        ignored: Sequence[str] = (),
    ) -> None:
        """Set up a pooler for this server.

        Args:
            server: The server behind it.
            sessions: How many it keeps per database.
            mode: For how long a client has a session: for a transaction, or until it disconnects.
            ignored: Settings that clients may send when they connect, and do not get; others it refuses.
        """
        self._program = _find()
        self._runner = account()
        self._home = PostgresHome(None, self._runner)
        self._server = server
        self._settings = {"sessions": sessions, "mode": mode, "ignored": ", ".join(ignored)}
        self.port = free_port()
        self._daemon: Daemon | None = None

    def url(self, database: str = "postgres") -> str:
        """Return the URL of this database through the pooler."""
        return f"postgresql://{SUPERUSER}@{HOST}:{self.port}/{quote(database, safe='')}"

    def __enter__(self) -> Self:
        """Start it and wait until it answers."""
        settings = self._home.path / "pgbouncer.ini"
        settings.write_text(
            _SETTINGS.format(host=HOST, server=self._server.port, user=SUPERUSER, port=self.port, **self._settings)
        )
        if self._runner is not None:
            self._runner.own(settings)
        command = [self._program, str(settings)]
        self._daemon = Daemon(command, runner=self._runner, cwd=self._home.path, log=self._home.log)
        try:
            wait_until(self._answers, seconds=30, what=f"PgBouncer on port {self.port} to answer")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it, and remove everything."""
        if self._daemon is not None:
            self._daemon.end(signal.SIGTERM)
        self._home.remove()

    def _answers(self) -> bool:
        if self._daemon is None or not self._daemon.is_running:
            raise PostgresFailed(f"PgBouncer ended by itself. Its last words:\n{self._home.log.read_text()}")
        return PostgresAddress(self._server.version, self.port, self._server.binaries).answers()


def _find() -> str:
    found = shutil.which("pgbouncer", path=os.pathsep.join((os.environ.get("PATH", ""), _PLACES)))
    if found is None:
        raise PostgresUnavailable("PgBouncer is not here. On Debian: apt-get install pgbouncer")
    return str(Path(found))
