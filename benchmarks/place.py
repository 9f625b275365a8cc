"""Where benchmarks keep their files: on the disk that the checkout is on, never in memory."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from embedq.stores.sqlite.connection import PRAGMAS

HOME = Path(__file__).resolve().parent
BUILD = HOME.parent / "build"

# A bare loop has no checkpointer of its own, so SQLite's default one stays on for it.
RAW_PRAGMAS = tuple(pragma for pragma in PRAGMAS if "wal_autocheckpoint" not in pragma)


@contextmanager
def folder() -> Iterator[Path]:
    """Lend a folder that is gone afterwards."""
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=BUILD) as found:
        yield Path(found)


def raw(path: Path) -> sqlite3.Connection:
    """Open a bare connection with the product's pragmas."""
    db = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    for pragma in RAW_PRAGMAS:
        db.execute(pragma)
    return db
