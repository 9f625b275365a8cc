"""Serves the API inside a running event loop, beside workers if there are any."""

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

from embedq.api.connections import BoundedConfig, Bounds, Connection, Crowd
from embedq.errors import SettingsError
from embedq.telemetry import Telemetry

GRACE_SECONDS = 10  # for requests that are under way when the server is told to stop
KEEP_ALIVE_SECONDS = 75  # longer than clients and proxies keep theirs: a connection is never closed under a request
TICK_SECONDS = 1.0  # the Date header's step, and how often connections are looked through
TAKEN_AT_ONCE = 64  # connections, before the first of them is looked at
WAITING = 1024  # connections that the kernel keeps until then
NO_FILES_LEFT = "socket.accept() out of system resource"  # what asyncio says of it, some dozen times a second


class Server:
    """One HTTP server. It binds its address when it is made, so that a taken port is known before all else starts."""

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
        """Bind the address; without a key, none but loopback."""
        self._socket = bound(host, port, keyed=keyed)
        config = BoundedConfig(
            app,
            access_log=False,
            backlog=TAKEN_AT_ONCE,
            http=Connection,
            log_config=None,
            log_level="critical",  # errors of requests are told as events
            proxy_headers=False,  # nobody else decides who the caller is
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            ws="none",
        )
        config.crowd = Crowd(_within_files(bounds or Bounds()), telemetry)
        self._server = _Unsignalled(config)

    @property
    def url(self) -> str:
        """Where it listens, with the port that was found if 0 was asked for."""
        host, port, *_ = self._socket.getsockname()
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    async def run(self, *, started: Callable[[str], None] | None = None) -> None:
        """Serve until told to stop; requests under way are finished."""
        url = self.url
        self._server.on_started = (lambda: started(url)) if started else None
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            self._socket.close()

    def stop(self) -> None:
        """Take no more requests, and return from `run` when those under way are answered."""
        self._server.stop()


class _Unsignalled(uvicorn.Server):
    """Signals belong to whoever runs the process; and waiting costs nothing."""

    def __init__(self, config: BoundedConfig) -> None:
        super().__init__(config)
        self._crowd = config.crowd
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
        with self._noting_full_tables():
            while not await self.on_tick(0):
                self._crowd.sweep(self.server_state.connections)  # type: ignore[arg-type]  # all are of our class
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), TICK_SECONDS)

    @contextlib.contextmanager
    def _noting_full_tables(self) -> Iterator[None]:
        """Count what asyncio would log each time: that the process has no file left for a connection."""
        loop = asyncio.get_running_loop()
        before = loop.get_exception_handler()

        def meet(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            if context.get("message") == NO_FILES_LEFT:
                self._crowd.note("no_files_left")
            elif before is not None:
                before(loop, context)
            else:
                loop.default_exception_handler(context)

        loop.set_exception_handler(meet)
        try:
            yield
        finally:
            loop.set_exception_handler(before)


def _within_files(bounds: Bounds) -> Bounds:
    """Leave half of the files that the process may open to the database and all else."""
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = bounds.connections if most == resource.RLIM_INFINITY else max(1, most // 2)
    return replace(bounds, connections=min(bounds.connections, files))


def bound(host: str, port: int, *, keyed: bool) -> socket.socket:
    """Bind an address, or say which setting to change."""
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
        found.setblocking(False)  # noqa: FBT003 the library's own shape
    except OSError as error:
        found.close()
        raise SettingsError(f"EMBEDQ_PORT={port}: {host}:{port} cannot be bound ({error.strerror})") from error
    return found
