"""The embedders that one process has built."""

import asyncio
from collections.abc import Mapping
from threading import Lock

from embedq import embedders
from embedq.model import EmbedderName
from embedq.ports import Embedder
from embedq.ports.provider import ModelFiles


class EmbedderRegistry:
    """The embedders of this process: each is built once, shared by workers and queries, and closed at the end."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Build embedders with these variables."""
        self._environment = environment
        self._built: dict[EmbedderName, Embedder] = {}
        self._lock = Lock()

    def canonical(self, name: EmbedderName) -> EmbedderName:
        """Return a name's canonical form; refuse one that this version cannot build."""
        embedders.find(name)
        return embedders.canonical(name)

    def build(self, name: EmbedderName) -> Embedder:
        """Build an embedder, or return the existing one; may block."""
        with self._lock:
            if name not in self._built:
                self._built[name] = embedders.build(name, environment=self._environment)
            return self._built[name]

    async def get(self, name: EmbedderName) -> Embedder:
        """Build an embedder off the event loop."""
        return await asyncio.to_thread(self.build, name)

    def files(self, name: EmbedderName) -> ModelFiles | None:
        """Return the files that an embedder runs on, if it does."""
        return embedders.files(name, environment=self._environment)

    async def close(self) -> None:
        """Close them all."""
        for embedder in self._built.values():
            await embedder.close()
        self._built.clear()
