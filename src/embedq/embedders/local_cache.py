"""Keeps the built graph in the user's cache folder, so that it is built once and checked every time.

The same weights make the same bytes, so the file must be the very one that is named here: a name or a note beside it
could be forged as easily as the file itself. An onnx that writes the same graph in other bytes builds it every time.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from embedq.embedders.local import MODEL
from embedq.embedders.local_weights import SHA256, WEIGHTS, Source, sha256_of

GRAPH_VERSION = 1  # part of the file's name: raise it whenever `local_graph` changes what it builds
GRAPH_SHA256 = "012db056d186d87357b2a4e56d9e0d0b90c2f33576c822b5cb3078dc9b9a4dd4"  # of what this version builds
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Say where this user's caches live."""
    named = environment.get("XDG_CACHE_HOME", "")
    # The specification wants an absolute path and tells us to ignore any other.
    root = Path(named) if Path(named).is_absolute() else Path(environment.get("HOME") or Path.home()) / ".cache"
    return root / "embedq"


def graph(source: Source, folder: Path) -> Path | bytes:
    """Answer with the cached graph, built first if need be; with its bytes where nothing can be kept.

    One rename both stores and seals it: two processes that build at once do no harm, and a file that was cut, changed
    or put there by somebody else is seen and built again.
    """
    path = folder / f"{MODEL}-{SHA256[WEIGHTS][:12]}-v{GRAPH_VERSION}-{GRAPH_SHA256}.onnx"
    own = _is_ours_alone(folder)
    if own and _is_intact(path):
        return path
    from embedq.embedders.local_graph import build  # noqa: PLC0415 - onnx is heavy, and a cached graph needs none

    built = build(source.verified(WEIGHTS))
    if not own or sha256(built).hexdigest() != GRAPH_SHA256:
        return built
    try:
        _keep(built, path)
    except OSError:  # a full or a read-only disk: a cache is no duty
        return built
    return path


def _is_ours_alone(folder: Path) -> bool:
    """Make the folder if need be, and say whether nobody else can change a file between our look and our loading."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
        if found.st_uid == os.geteuid() and found.st_mode & OTHERS_WRITE:
            folder.chmod(0o700)
            found = folder.stat()
    except OSError:  # no home, or no right to it
        return False
    return found.st_uid in {os.geteuid(), 0} and not found.st_mode & OTHERS_WRITE


def _is_intact(path: Path) -> bool:
    with contextlib.suppress(OSError):
        if not path.is_symlink() and sha256_of(path) == GRAPH_SHA256:
            return True
        path.unlink()
    return False


def _keep(built: bytes, path: Path) -> None:
    handle, draft = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(built)
        Path(draft).replace(path)
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise
