"""What a client leaves behind: threads, open files, and the end of a whole program."""

import os
import subprocess
import sys
import threading
from pathlib import Path

SECONDS = 60
LOOM = {"id": "n1", "text": "Call Ada about the loom"}


_of_before: set[threading.Thread] = set()


def url_of(folder: Path) -> str:
    return f"sqlite:///{folder}/notes.db"


def note_threads() -> None:
    """Leave out what earlier tests of this process have left running."""
    _of_before.clear()
    _of_before.update(threading.enumerate())


def our_threads() -> list[str]:
    running = set(threading.enumerate()) - _of_before
    return sorted(thread.name for thread in running if thread.name.startswith("embedq"))


def open_files(folder: Path) -> list[str]:
    links = [Path(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]  # noqa: PTH208 names only
    return [str(link.readlink()) for link in links if link.is_symlink() and str(folder) in str(link.readlink())]


def run(code: str, folder: Path, **how: object) -> subprocess.CompletedProcess[str]:
    """Run a script as people do; `URL` and `LOOM` are there."""
    head = f"import embedq\nURL, LOOM = {url_of(folder)!r}, {LOOM!r}\n"
    environment = {**os.environ, "EMBEDQ_EMBEDDER": "fake", **{name: str(value) for name, value in how.items()}}
    return subprocess.run(
        [sys.executable, "-c", head + code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
