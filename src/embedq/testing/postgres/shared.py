"""One server for all processes of a test run: the first one starts it, and stops it when the last has left."""

import contextlib
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from embedq.testing.postgres.address import PostgresAddress
from embedq.testing.postgres.server import PostgresServer


class SharedServer:
    """This process's handle of a server that others use too.

    A note in the run's folder has the server's address. Each user holds a shared lock on the note, which the kernel
    releases even for a process that crashed; the process that started it stops it once no other holds a lock.
    """

    def __init__(self, folder: Path, version: int, *, binaries: Path | None = None) -> None:
        """Set the folder that all processes of the run share, and the server; see `PostgresServer`."""
        self._version = version
        self._binaries = binaries
        name = f"postgres{version}" if binaries is None else f"postgres{version}-{binaries.parent.name}"
        self._lock_path = folder / f"{name}.door"
        self._note_path = folder / f"{name}.json"
        self._note: IO[str] | None = None
        self._server: PostgresServer | None = None

    def join(self) -> PostgresAddress:
        """Return the running server, or start it."""
        with _locked(self._lock_path):  # one at a time: two must not both find that it has not been started
            self._note = self._note_path.open("a+")
            fcntl.flock(self._note, fcntl.LOCK_SH)
            return self._read(self._note) or self._start(self._note)

    def leave(self) -> None:
        """Stop using it; if it is ours, wait until no process uses it, and stop it."""
        if self._note is None:
            return
        with self._note as note:
            if self._server is not None:
                fcntl.flock(note, fcntl.LOCK_EX)
                note.truncate(0)
                self._server.stop(immediate=True)
        self._note = None

    def _read(self, note: IO[str]) -> PostgresAddress | None:
        note.seek(0)
        written = note.read()
        if not written:
            return None
        found = json.loads(written)
        address = PostgresAddress(self._version, found["port"], Path(found["binaries"]))
        return address if address.answers() else None

    def _start(self, note: IO[str]) -> PostgresAddress:
        # Nobody cuts its power: whatever a commit costs beyond the kernel's cache proves nothing here.
        self._server = PostgresServer(self._version, binaries=self._binaries, fsync=False).start()
        note.truncate(0)
        note.write(json.dumps({"port": self._server.port, "binaries": str(self._server.binaries)}))
        note.flush()
        return self._server


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
