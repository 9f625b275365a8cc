"""A PostgreSQL server for tests: started, restarted, killed, replicated and promoted."""

import atexit
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from embedq.testing.postgres.address import HOST, SUPERUSER, PostgresAddress, free_port
from embedq.testing.postgres.binaries import PostgresFailed, account, find_binaries, run
from embedq.testing.postgres.home import PostgresHome
from embedq.testing.postgres.process import Daemon, wait_until

_PORT_TRIES = 5
_LAST_WORDS = 2_000
_OUR_SETTINGS = "embedq.conf"
_LOCALE = "C.UTF-8" if sys.platform == "linux" else "C"


class PostgresServer(PostgresAddress):
    """One PostgreSQL server for tests."""

    def __init__(
        self,
        version: int = 18,
        *,
        port: int = 0,
        fsync: bool = True,
        directory: Path | None = None,
        settings: Mapping[str, str] | None = None,
        listen: Sequence[str] = (HOST,),
        binaries: Path | None = None,
    ) -> None:
        """Choose what to start.

        Args:
            version: 18 or 16.
            port: on loopback; 0: any free one, the same after every restart.
            fsync: whether a commit is on disk; off only where durability is not tested.
            directory: where data and log are kept after the end; None: nowhere.
            settings: more of PostgreSQL's settings; `ALTER SYSTEM` overrides them.
            listen: addresses of this machine, loopback among them; clients in their networks are trusted too.
            binaries: the programs of another build of this version.
        """
        super().__init__(version, port or free_port(), binaries or find_binaries(version))
        self._may_move = port == 0
        self._runner = account()
        self._home = PostgresHome(directory, self._runner)
        self.settings = _settings(fsync=fsync) | dict(settings or {})
        self._listen = listen
        self._postmaster: Daemon | None = None
        self._owner = os.getpid()
        atexit.register(self._stop_at_exit)

    @classmethod
    def standby_of(cls, primary: "PostgresServer", *, synchronous: bool = False) -> Self:
        """Start a hot standby that follows this primary; if synchronous, each commit there waits for it."""
        standby = cls(primary.version, settings=primary.settings, binaries=primary.binaries)
        try:
            standby._copy(primary)
            standby.start()
            primary.wait_for_follower(standby.name, "streaming")
            # The copied settings may name an earlier standby: it must not be waited for after a promotion.
            standby.query("ALTER SYSTEM RESET synchronous_standby_names")
            if synchronous:
                primary.commit_with(standby.name)
        except BaseException:
            standby.stop(immediate=True)
            raise
        return standby

    @property
    def name(self) -> str:
        """Its name as a standby."""
        return f"standby_{self._home.path.name.replace('-', '_')}"

    @property
    def pid(self) -> int | None:
        """The postmaster's process id; None while it is down."""
        return self._postmaster.pid if self._postmaster and self._postmaster.is_running else None

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self._home.log

    def last_words(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-_LAST_WORDS:] if self.log.exists() else ""

    def __enter__(self) -> Self:
        """Start it."""
        return self.start()

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    def start(self) -> Self:
        """Start it on its data, created at the first start, and wait until it answers."""
        if self.pid is not None:
            return self
        try:
            self._initialise()
            self._launch_where_free()
        except BaseException:
            self._end(immediate=True)  # the data stay: it may be started again after a repair
            raise
        self._may_move = False
        return self

    def wait_ready(self, *, seconds: float = 60.0) -> None:
        """Wait until it accepts connections."""
        wait_until(self._is_ready, seconds=seconds, what=f"PostgreSQL on port {self.port} to answer")

    def stop(self, *, immediate: bool = False) -> None:
        """Stop it permanently and remove its data. Immediate: without a last checkpoint."""
        atexit.unregister(self._stop_at_exit)
        self._end(immediate=immediate)
        self._home.remove()

    def restart(self, *, immediate: bool = False) -> None:
        """Stop it if it is running, and start it again on the same data and port."""
        self._end(immediate=immediate)
        self.start()

    def kill(self) -> None:
        """End it as a power cut would; `start` or `restart` starts it again on the same data and port."""
        if self._postmaster is not None:
            self._postmaster.kill()
            # All its processes are gone: their pid file could only mislead, if its pid is reused.
            (self._home.data / "postmaster.pid").unlink(missing_ok=True)

    def promote(self, *, seconds: int = 60) -> None:
        """Make this standby a primary, and wait until it accepts writes."""
        if self.query(f"SELECT pg_promote(true, {seconds})") != "t":
            raise PostgresFailed(f"The standby on port {self.port} was not promoted within {seconds} s.")

    def _initialise(self) -> None:
        if not (self._home.data / "PG_VERSION").exists():
            ways = ["--auth-host=trust", "--auth-local=reject", f"--username={SUPERUSER}"]
            words = [f"--locale={_LOCALE}", "--encoding=UTF8", "--no-sync"]
            self._run("initdb", f"--pgdata={self._home.data}", *ways, *words)
            with (self._home.data / "postgresql.conf").open("a") as file:
                file.write(f"include_if_exists = '{_OUR_SETTINGS}'\n")
            if len(self._listen) > 1:
                with (self._home.data / "pg_hba.conf").open("a") as file:
                    file.write("host all all samenet trust\n")
        self._write_settings()

    def _copy(self, primary: "PostgresServer") -> None:
        source = f"host={HOST} port={primary.port} user={SUPERUSER} application_name={self.name}"
        how = ["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]
        self._run("pg_basebackup", f"--pgdata={self._home.data}", f"--dbname={source}", *how)

    def _run(self, program: str, *arguments: str) -> None:
        run([self.binaries / program, *arguments], runner=self._runner, cwd=self._home.path)

    def _write_settings(self) -> None:
        file = self._home.data / _OUR_SETTINGS
        file.write_text("".join(f"{name} = {_literal(value)}\n" for name, value in self.settings.items()))
        if self._runner is not None:
            self._runner.own(file)

    def _launch_where_free(self) -> None:
        for tries_left in reversed(range(_PORT_TRIES)):
            said_before = self.log.stat().st_size if self.log.exists() else 0
            self._launch()
            try:
                self.wait_ready()
            except PostgresFailed:
                if not (tries_left and self._may_move and b"could not bind" in self.log.read_bytes()[said_before:]):
                    raise
                self.port = free_port()
            else:
                return

    def _launch(self) -> None:
        place = {"listen_addresses": ",".join(self._listen), "port": str(self.port), "unix_socket_directories": ""}
        options = [f"--{name}={value}" for name, value in place.items()]
        command = [str(self.binaries / "postgres"), "-D", str(self._home.data), *options]
        self._postmaster = Daemon(command, runner=self._runner, cwd=self._home.path, log=self.log)

    def _is_ready(self) -> bool:
        if self.pid is None:
            raise PostgresFailed(f"PostgreSQL {self.version} ended by itself. Its last words:\n{self.last_words()}")
        try:
            lines = (self._home.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return lines[:1] == [str(self.pid)] and lines[7:8] != [] and lines[7].strip() in {"ready", "standby"}

    def _end(self, *, immediate: bool) -> None:
        if self._postmaster is not None:
            self._postmaster.end(signal.SIGQUIT if immediate else signal.SIGINT)  # SIGTERM would wait for clients
            self._postmaster = None

    def _stop_at_exit(self) -> None:
        if os.getpid() == self._owner:  # not in a fork of ours
            self.stop(immediate=True)


def _settings(*, fsync: bool) -> dict[str, str]:
    return {
        "fsync": "on" if fsync else "off",
        "max_connections": "200",
        "shared_buffers": "128MB",
        "max_wal_size": "256MB",
        "wal_keep_size": "256MB",  # so that a standby can resume after a restart
        "log_line_prefix": "%m [%p] ",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }


def _literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
