"""One server for all processes of a test run: the first who asks starts it, and stops it when the last has left."""

import contextlib
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from embedq.testing.postgres.address import PostgresAddress
from embedq.testing.postgres.server import PostgresServer


class SharedServer:
    """This process's part in a server that others use too.

    A note in the run's folder says where the server answers. Whoever uses it holds a shared lock on the note, which the
    kernel takes back even from a process that crashed; whoever started it stops it once nobody else holds one.
    """

    def __init__(self, folder: Path, version: int, *, binaries: Path | None = None, fsync: bool = True) -> None:
        """Name the folder that all processes of the run have in common, and the server; see `PostgresServer`."""
        self._version = version
        self._binaries = binaries
        self._fsync = fsync
        name = f"postgres{version}" if binaries is None else f"postgres{version}-{binaries.parent.name}"
        self._door = folder / f"{name}.door"
        self._note_path = folder / f"{name}.json"
        self._note: IO[str] | None = None
        self._server: PostgresServer | None = None

    def join(self) -> PostgresAddress:
        """Answer with the server that runs, or start it."""
        with _locked(self._door):  # one at a time: two must not both find that nobody has started it
            self._note = self._note_path.open("a+")
            fcntl.flock(self._note, fcntl.LOCK_SH)
            return self._read(self._note) or self._start(self._note)

    def leave(self) -> None:
        """Use it no more; if it is ours, wait until nobody does, and stop it."""
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
        self._server = PostgresServer(self._version, binaries=self._binaries, fsync=self._fsync).start()
        note.truncate(0)
        note.write(json.dumps({"port": self._server.port, "binaries": str(self._server.binaries)}))
        note.flush()
        return self._server


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
