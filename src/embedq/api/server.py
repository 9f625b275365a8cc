"""Serves the API inside a running event loop, along with workers if there are any."""

import asyncio
import contextlib
import resource
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import ip_address
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from embedq.api.connections import BoundedConfig, Bounds, Connection, ConnectionLimiter
from embedq.errors import SettingsError
from embedq.telemetry import Telemetry

GRACE_SECONDS = 10  # for requests in progress when the server is stopped
KEEP_ALIVE_SECONDS = 75  # longer than most clients and proxies, so that they close first
TICK_SECONDS = 1.0  # how often the Date header is updated and connections are checked
TAKEN_AT_ONCE = 64  # connections per accept round
WAITING = 1024  # backlog of connections in the kernel
NO_FILES_LEFT = "socket.accept() out of system resource"  # asyncio's message, logged dozens of times a second


class Server:
    """One HTTP server. The constructor binds its address, so that a taken port is known before anything else starts."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str,
        port: int,
        keyed: bool,
        bounds: Bounds | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        """Bind the address; without a key, only loopback is allowed."""
        self._socket = bound(host, port, keyed=keyed)
        config = BoundedConfig(
            app,
            access_log=False,
            backlog=TAKEN_AT_ONCE,
            http=Connection,
            log_config=None,
            log_level="critical",  # errors of requests are emitted as events
            proxy_headers=False,  # forwarded addresses are not trusted
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            ws="none",
        )
        config.limiter = ConnectionLimiter(_within_files(bounds or Bounds()), telemetry)
        self._server = _Unsignalled(config)

    @property
    def url(self) -> str:
        """The URL it listens on, with the actual port if 0 was requested."""
        host, port, *_ = self._socket.getsockname()
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def run(self, *, started: Callable[[str], None] | None = None) -> None:
        """Serve until `stop` is called; requests in progress are finished."""
        url = self.url
        self._server.on_started = (lambda: started(url)) if started else None
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Take no more requests, and let `run` return when those in progress are answered."""
        self._server.stop()


class _Unsignalled(uvicorn.Server):
    """Leaves signals to the process, and waits for an event instead of polling."""

    def __init__(self, config: BoundedConfig) -> None:
        super().__init__(config)
        self._limiter = config.limiter
        self.on_started: Callable[[], None] | None = None
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self.should_exit = True
        self._stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(WAITING)
        if self.on_started is not None:
            self.on_started()

    async def main_loop(self) -> None:
        with self._counting_file_errors():
            while not await self.on_tick(0):
                self._limiter.sweep(self.server_state.connections)  # type: ignore[arg-type]  # all are of our class
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), TICK_SECONDS)

    @contextlib.contextmanager
    def _counting_file_errors(self) -> Iterator[None]:
        """Count the errors that asyncio would log each time: no file descriptor left for a connection."""
        loop = asyncio.get_running_loop()
        before = loop.get_exception_handler()

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if context.get("message") == NO_FILES_LEFT:
                self._limiter.note("no_files_left")
            elif before is not None:
                before(loop, context)
            else:
                loop.default_exception_handler(context)

        loop.set_exception_handler(handle)
        try:
            yield
        finally:
            loop.set_exception_handler(before)


def _within_files(bounds: Bounds) -> Bounds:
    """Leave half of the process's file descriptors to the database and everything else."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = bounds.connections if most == resource.RLIM_INFINITY else max(1, most // 2)
    return replace(bounds, connections=min(bounds.connections, files))


def bound(host: str, port: int, *, keyed: bool) -> socket.socket:
    """Bind an address, or raise an error that names the setting to change."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise SettingsError(f"EMBEDQ_HOST={host!r}: no such address ({error})") from error
    if not keyed and not ip_address(address[0]).is_loopback:
        raise SettingsError(
            f"EMBEDQ_HOST={host!r}: without a key only loopback is served: set EMBEDQ_API_KEY, or EMBEDQ_HOST=127.0.0.1"
        )
    found = socket.socket(family, kind, protocol)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.setblocking(False)  # noqa: FBT003 the library's signature
    except OSError as error:
        found.close()
        raise SettingsError(f"EMBEDQ_PORT={port}: {host}:{port} cannot be bound ({error.strerror})") from error
    return found
