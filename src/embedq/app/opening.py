"""How an application opens embedq: in a block, or without one."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager
from typing import Any

from embedq.app.embedq import Close, EmbedQ

_HELD: set[asyncio.Task[None]] = set()  # asyncio itself refers to tasks weakly


class Opening(AbstractAsyncContextManager[EmbedQ]):
    """What `embedq.open` returns: `async with` closes at the end of the block, and after `await` you `close`.

    One task opens and closes: a loop that ends cancels it, and so closes what nobody has closed.
    """

    def __init__(self, opened: Callable[[Close], AbstractAsyncContextManager[EmbedQ]]) -> None:
        """Open nothing yet; `opened` is handed what `close` will do."""
        self._opened = opened

    def __await__(self) -> Generator[Any, None, EmbedQ]:
        """Open it; `close` closes it."""
        return self.__aenter__().__await__()

    async def __aenter__(self) -> EmbedQ:
        """Open it."""
        ready: asyncio.Future[EmbedQ] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._hold(ready), name="embedq-open")
        _HELD.add(task)
        task.add_done_callback(_HELD.discard)
        either: list[asyncio.Future[Any]] = [task, ready]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        if not ready.done():
            await task  # raises why it could not be opened
        self._eq = ready.result()
        return self._eq

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self._eq.close()

    async def _hold(self, ready: asyncio.Future[EmbedQ]) -> None:
        """Open it, and keep it open until `close` is called."""
        task, closing = asyncio.current_task(), asyncio.Event()

        async def close() -> None:
            closing.set()
            if task is not None:
                await asyncio.shield(task)  # whoever stops waiting does not stop it half-way

        async with self._opened(close) as eq:
            ready.set_result(eq)
            await closing.wait()
