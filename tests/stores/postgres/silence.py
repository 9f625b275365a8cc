"""A host behind a load balancer: what is sent to it can be swallowed, every byte of it acknowledged."""

import asyncio
import contextlib
from typing import Self


class Between:
    """Forwards connections to a server on loopback until it is told to swallow what comes."""

    def __init__(self, port: int) -> None:
        """Stand before the server on this port."""
        self._to = port
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.port = 0
        self.takes_new = True  # connections; else they are opened, and nothing is ever said on them

    async def __aenter__(self) -> Self:
        """Listen."""
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Cut everything off."""
        self.swallow()
        for writer in self._writers:
            writer.close()
        if self._server is not None:
            self._server.close()

    def swallow(self) -> None:
        """Forward nothing more on the connections there are, and close none of them."""
        for pipe in self._pipes:
            pipe.cancel()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        if not self.takes_new:
            return
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to)
        self._writers.append(far_writer)
        for source, target in ((reader, far_writer), (far_reader, writer)):
            pipe = asyncio.create_task(_forward(source, target))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)


async def _forward(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
        target.close()
