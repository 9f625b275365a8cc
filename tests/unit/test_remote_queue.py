"""The queue of another API, asked with our key."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from embedq.app import load
from embedq.cli.remote import RemoteQueue
from embedq.errors import SettingsError, StoreError

KEY = "a-key-for-one-server-only"


class Server(ThreadingHTTPServer):
    """Notes which keys it was shown, and answers as it is told."""

    def __init__(self) -> None:
        """Answer well on a free port."""
        self.keys: list[str | None] = []
        self.elsewhere: str | None = None
        super().__init__(("127.0.0.1", 0), _Answers)

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"


class _Answers(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        """Note the key; point elsewhere, if there is one."""
        self.server.keys.append(self.headers.get("Authorization"))
        self.send_response(307 if self.server.elsewhere else 200)
        if self.server.elsewhere:
            self.send_header("Location", self.server.elsewhere + self.path)
        self.end_headers()
        self.wfile.write(b'{"paused": true}')

    def do_POST(self) -> None:
        """Answer the same."""
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    running = (Server(), Server())
    threads = [threading.Thread(target=server.serve_forever, daemon=True) for server in running]
    for thread in threads:
        thread.start()
    yield running
    for server, thread in zip(running, threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()


async def test_the_key_does_not_follow_a_redirect(servers: tuple[Server, Server]) -> None:
    """A server that points elsewhere is refused, and nobody but the server that was named sees the key."""
    named, other = servers
    named.elsewhere = other.address
    queue = RemoteQueue(load(api_base_url=named.address, api_key=KEY))

    assert not await queue.answers()
    with pytest.raises(StoreError, match="points to another address: check CHL_API_BASE_URL"):
        await queue.pause()

    assert named.keys == [f"Bearer {KEY}"] * 2
    assert other.keys == []


async def test_user_and_password_of_the_address_are_not_sent(servers: tuple[Server, Server]) -> None:
    """The key says who we are; a user in the address does not make it unreadable."""
    named, _ = servers
    queue = RemoteQueue(load(api_base_url=named.address.replace("//", "//ada:loom@"), api_key=KEY))

    assert await queue.paused()
    assert named.keys == [f"Bearer {KEY}"]


@pytest.mark.parametrize("address", ["http://u:S3CRET/x@h", "http://u:12/S3CRET@h", "http://[u:S3CRET@h", "http://:1"])
def test_an_address_that_is_none_is_refused_without_its_password(address: str) -> None:
    """What cannot be read as an address is shown without what may be a password."""
    with pytest.raises(SettingsError) as refused:
        RemoteQueue(load(api_base_url=address))

    assert "CHL_API_BASE_URL" in str(refused.value)
    assert "S3CRET" not in str(refused.value)
