"""Notice what other processes commit, by polling one number."""

import threading
from collections.abc import Callable
from pathlib import Path

from embedq.stores.sqlite.connection import connect

PERIOD = 0.07  # seconds: costs a fifth of a percent of a core, and wakes well within a tenth of a second


class Watcher:
    """Watches the file's data version and calls back when it changes."""

    def __init__(self, path: Path, changed: Callable[[], None], trouble: Callable[[Exception], None]) -> None:
        """Start watching; `changed` and `trouble` are called on the watcher's thread."""
        self._db = connect(path, read_only=True)
        self._changed = changed
        self._trouble = trouble
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="embedq-watcher", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop watching."""
        self._stop.set()
        self._thread.join()
        self._db.close()

    def _watch(self) -> None:
        seen = -1
        while not self._stop.wait(PERIOD):
            try:
                version = self._version()
                if version != seen:
                    seen = version
                    self._changed()
            except Exception as error:  # noqa: BLE001 a service loop: the next poll may succeed
                self._trouble(error)

    def _version(self) -> int:
        (version,) = self._db.execute("PRAGMA data_version").fetchone()
        return int(version)
