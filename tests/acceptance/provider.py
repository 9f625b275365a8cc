"""A provider on loopback that notes when it was asked, in a thread of its own."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

from embedq.testing.faults import Faults
from embedq.testing.provider import EmbeddingProvider, Request

T = TypeVar("T")
KEY = "sk-a-key-that-must-not-be-told"


class _Stamped(list[Request]):
    """Requests, and the moment of each."""

    def __init__(self) -> None:
        super().__init__()
        self.moments: list[float] = []

    def append(self, request: Request) -> None:
        self.moments.append(time.monotonic())
        super().append(request)


class _Holding(EmbeddingProvider):
    """Answers nobody until it may."""

    released: asyncio.Event

    async def _answer(self, *asked: Any) -> bool:  # noqa: ANN401 whatever it takes
        await self.released.wait()
        return await super()._answer(*asked)


class Provider:
    """Speaks the OpenAI wire for real processes while the test looks on."""

    def __init__(self, faults: str = "", *, held: bool = False) -> None:
        """Play this script of faults; if held, every answer waits for `release`."""
        self._asked = _Stamped()
        self._provider = _Holding(dimensions=16, faults=Faults.parse(faults))
        self._provider.released = asyncio.Event()
        if not held:
            self._provider.released.set()
        self._provider.requests = self._asked
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="provider", daemon=True)

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        self._do(self._provider.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        """Stop listening."""
        self._do(self._provider.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def settings(self) -> dict[str, str]:
        """What to start embedq with, so that it asks this provider."""
        return {
            "EMBEDQ_EMBEDDER": "openai:some-model",
            "OPENAI_BASE_URL": self._provider.base_url,
            "OPENAI_API_KEY": KEY,
        }

    @property
    def texts(self) -> list[str]:
        """Every text that was asked for, in order."""
        return [text for request in list(self._asked) for text in request.texts]

    @property
    def moments(self) -> list[float]:
        """When each request came."""
        return list(self._asked.moments)

    def release(self) -> None:
        """Let answers go that wait, and all that come."""
        self._loop.call_soon_threadsafe(self._provider.released.set)

    def _do(self, act: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(act, self._loop).result(10)
