"""Raw connections to a server, for what no HTTP library would send."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Any

from embedq.api import Server
from embedq.telemetry import Event

if TYPE_CHECKING:
    from tests.doors.conftest import World

KEYS = {"api_key": "full-key-of-the-test", "read_key": "read-key-of-the-test"}
AUTH = b"Authorization: Bearer full-key-of-the-test\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /collections/notes/records HTTP/1.1\r\nHost: localhost\r\n"


class Wire:
    """A raw connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Speak through these."""
        self.reader, self.writer = reader, writer

    async def send(self, *pieces: bytes) -> None:
        """Send bytes as they are."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()

    async def head(self) -> bytes:
        """Read one answer's status and headers."""
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)

    async def rest(self) -> bytes:
        """Read until the server closes; a reset is an end, too."""
        found = b""
        try:
            while piece := await asyncio.wait_for(self.reader.read(65_536), 10):
                found += piece
        except ConnectionError:
            pass
        return found


class Door:
    """A server, and what stands behind it."""

    def __init__(self, world: "World", server: Server) -> None:
        """Serve this world."""
        self.world, self.server = world, server

    async def connect(self) -> Wire:
        """Open a connection."""
        return Wire(*await asyncio.open_connection("127.0.0.1", int(self.server.url.rpartition(":")[2])))

    async def say(self, *pieces: bytes) -> bytes:
        """Send bytes over a connection of their own, and read until the server closes."""
        wire = await self.connect()
        with suppress(ConnectionError):
            await wire.send(*pieces)
        return await wire.rest()

    async def healthy(self) -> bool:
        """Say whether the server answers."""
        return (await self.say(HEALTH + b"Connection: close\r\n\r\n")).startswith(b"HTTP/1.1 200")

    def told(self) -> list[dict[str, Any]]:
        """List what was told of connections."""
        return [dict(facts) for event, _, facts in self.world.events if event is Event.CONNECTIONS_BOUNDED]


Opened = Callable[..., AbstractAsyncContextManager[Door]]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that has no event."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 the server has no event for it
            await asyncio.sleep(0.01)
