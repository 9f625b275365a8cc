"""Caches the built graph in the user's cache folder; it is built once and checked on every load.

The same weights give the same bytes, so the file must have the digest that is named here: a digest stored beside it
could be forged as easily as the file itself. An onnx that serialises the graph differently builds it every time.
"""

import contextlib
import os
import tempfile
from hashlib import sha256
from pathlib import Path

from embedq.embedders.local import MODEL
from embedq.embedders.local_folder import is_ours_alone
from embedq.embedders.local_weights import SHA256, WEIGHTS, Source, sha256_of

GRAPH_VERSION = 1  # part of the file's name: raise it whenever `local_graph` changes what it builds
GRAPH_SHA256 = "012db056d186d87357b2a4e56d9e0d0b90c2f33576c822b5cb3078dc9b9a4dd4"  # of what this version builds


def graph(source: Source, folder: Path) -> Path | bytes:
    """Return the cached graph, built first if necessary; its bytes if it cannot be cached.

    The file is stored by one rename, so two processes may build at once; a truncated, changed or foreign file is
    detected and built again.
    """
    path = folder / f"{MODEL}-{SHA256[WEIGHTS][:12]}-v{GRAPH_VERSION}-{GRAPH_SHA256}.onnx"
    own = is_ours_alone(folder)
    if own and _is_intact(path):
        return path
    from embedq.embedders.local_graph import build  # noqa: PLC0415 - onnx is heavy, and a cached graph needs none

    built = build(source.verified(WEIGHTS))
    if not own or sha256(built).hexdigest() != GRAPH_SHA256:
        return built
    try:
        _keep(built, path)
    except OSError:  # a full or read-only disk: the cache is optional
        return built
    return path


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
