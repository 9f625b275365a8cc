"""Keeps the built graph in the user's cache folder, so that it is built once and checked every time."""

import contextlib
import os
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from embedq.embedders.local_weights import MODEL, SHA256, WEIGHTS, Source, sha256_of

GRAPH_VERSION = 1  # part of the file's name: raise it whenever `local_graph` changes what it builds


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Say where this user's caches live."""
    named = environment.get("XDG_CACHE_HOME", "")
    # The specification wants an absolute path and tells us to ignore any other.
    root = Path(named) if Path(named).is_absolute() else Path(environment.get("HOME") or Path.home()) / ".cache"
    return root / "embedq"


def graph(source: Source, folder: Path) -> Path | bytes:
    """Answer with the cached graph, built first if need be; with its bytes where nothing can be kept.

    The file's name carries the SHA-256 of its content, so that one rename both stores and seals it: two processes
    that build at once do no harm, and a file that was cut or changed is seen and built again.
    """
    prefix = f"{MODEL}-{SHA256[WEIGHTS][:12]}-v{GRAPH_VERSION}-"
    if kept := _intact(folder, prefix):
        return kept
    from embedq.embedders.local_graph import build  # noqa: PLC0415 - onnx is heavy, and a cached graph needs none

    built = build(source.verified(WEIGHTS))
    try:
        return _keep(built, folder, prefix)
    except OSError:  # no home, a full or a read-only disk: a cache is no duty
        return built


def _intact(folder: Path, prefix: str) -> Path | None:
    for path in sorted(folder.glob(f"{prefix}*.onnx")):
        with contextlib.suppress(OSError):
            if sha256_of(path) == path.stem.removeprefix(prefix):
                return path
            path.unlink()
    return None


def _keep(built: bytes, folder: Path, prefix: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{prefix}{sha256(built).hexdigest()}.onnx"
    handle, draft = tempfile.mkstemp(dir=folder, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(built)
        Path(draft).replace(path)
    except OSError:
        Path(draft).unlink(missing_ok=True)
        raise
    return path
