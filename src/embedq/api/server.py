"""Serves the API inside a running event loop, beside workers if there are any."""

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from ipaddress import ip_address

import uvicorn
from starlette.types import ASGIApp

from embedq.errors import SettingsError

GRACE_SECONDS = 10  # for requests that are under way when the server is told to stop
KEEP_ALIVE_SECONDS = 75  # longer than clients and proxies keep theirs: a connection is never closed under a request
TICK_SECONDS = 1.0  # the Date header's step


async def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    keyed: bool,
    stop: asyncio.Event | None = None,
    started: Callable[[str], None] | None = None,
) -> None:
    """Serve until `stop` is set, or until SIGTERM or SIGINT where none is given; `started` is told the URL."""
    server = Server(app, host=host, port=port, keyed=keyed)
    with _signals(server.stop) if stop is None else contextlib.nullcontext():
        watching = asyncio.create_task(_when_set(stop or asyncio.Event(), server.stop))
        try:
            await server.run(started=started)
        finally:
            watching.cancel()


class Server:
    """One HTTP server. It binds its address when it is made, so that a taken port is known before all else starts."""

    def __init__(self, app: ASGIApp, *, host: str, port: int, keyed: bool) -> None:
        """Bind the address; without a key, none but loopback."""
        self._socket = bound(host, port, keyed=keyed)
        self._server = _Unsignalled(
            uvicorn.Config(
                app,
                access_log=False,
                log_config=None,
                log_level="critical",  # errors of requests are told as events
                proxy_headers=False,  # nobody else decides who the caller is
                server_header=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                ws="none",
            )
        )

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

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
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
        if self.on_started is not None:
            self.on_started()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), TICK_SECONDS)


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


async def _when_set(event: asyncio.Event, act: Callable[[], None]) -> None:
    await event.wait()
    act()


@contextlib.contextmanager
def _signals(act: Callable[[], None]) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, act)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
