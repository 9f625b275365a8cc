"""How applications without asyncio open embedq."""

import os
import threading
from types import TracebackType
from typing import Any, Self

from embedq.app import EmbedQ, open  # noqa: A004 our own
from embedq.sync.client import SyncClient
from embedq.sync.operator import SyncOperator
from embedq.sync.portal import Portal
from embedq.sync.tables import SyncTables

_OPEN: set["SyncEmbedQ"] = set()  # closed before the interpreter ends


class SyncEmbedQ(SyncClient):
    """The methods of `EmbedQ` without asyncio, for any number of threads."""

    def __init__(self, eq: EmbedQ, portal: Portal) -> None:
        """Use what was opened on this portal; `connect` is the usual way."""
        super().__init__(eq, portal)
        self.operator = SyncOperator(eq.operator, portal)
        self.tables = SyncTables(eq.tables, portal)
        self._eq = eq
        self._closing = threading.Lock()
        _OPEN.add(self)

    def close(self) -> None:
        """Stop the workers of this process and close the database; twice is once. A fork closes nothing."""
        if self._portal.process != os.getpid():
            return
        with self._closing:
            if self in _OPEN:
                _OPEN.discard(self)
                try:
                    self._portal.run(self._eq.close)
                finally:
                    self._portal.close()

    def __enter__(self) -> Self:
        """Begin the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close it."""
        self.close()


def connect(
    url: str | None = None,
    *,
    workers: int = 0,
    embedder: str | None = None,
    **settings: Any,  # noqa: ANN401 each is of its own field's type
) -> SyncEmbedQ:
    """Open a database for an application without asyncio: `with embedq.connect("sqlite:///notes.db") as eq`.

    Without a block: `eq = embedq.connect(...)`, and `eq.close()` at the end. The arguments are those of `open`.
    """
    opening = open(url, workers=workers, embedder=embedder, **settings)
    portal = Portal()
    try:
        return SyncEmbedQ(portal.run(opening.__aenter__), portal)
    except BaseException:
        portal.close()
        raise


def _close_all() -> None:
    for eq in list(_OPEN):
        eq.close()


# Workers must stop before the standard library's thread pools do, and `atexit` comes after those.
threading._register_atexit(_close_all)  # type: ignore[attr-defined]  # noqa: SLF001 there is no public way
