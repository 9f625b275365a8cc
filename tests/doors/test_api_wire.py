"""What only a real server and a raw socket can show."""

import asyncio
import socket
from collections.abc import AsyncIterator

import httpx
import pytest
from tests.doors.conftest import Make, World

from embedq.api import Server
from embedq.api.server import bound
from embedq.errors import SettingsError

HOST = b"Host: localhost\r\n"
POST = b"POST /collections/notes/records HTTP/1.1\r\n" + HOST
LIMIT = 50_000


@pytest.fixture
async def served(make: Make) -> AsyncIterator[tuple[World, Server]]:
    world = await make(max_request_bytes=LIMIT)
    server, up = Server(world.api, host="127.0.0.1", port=0, keyed=False), asyncio.Event()
    running = asyncio.create_task(server.run(started=lambda _: up.set()))
    await up.wait()
    yield world, server
    server.stop()
    await running


async def say(server: Server, *pieces: bytes) -> bytes:
    """Send bytes as they are, and read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    answer = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return answer


def closing(head: bytes, body: bytes = b"") -> bytes:
    return head + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body


async def test_an_encoded_slash_reaches_its_record_through_the_server(served: tuple[World, Server]) -> None:
    """The server hands the raw path on, so that `a%2Fb` is one id; other encodings of the same path are the same."""
    world, server = served
    await world.http.post("/collections/notes/records", json={"id": "a/b", "text": "x"})

    for path in (b"/collections/notes/records/a%2Fb", b"/%63ollections/notes/records/%61%2fb"):
        answer = await say(server, closing(b"GET " + path + b" HTTP/1.1\r\n" + HOST))
        assert answer.startswith(b"HTTP/1.1 200"), path
        assert b'"id":"a/b"' in answer


async def test_an_id_of_dots_is_an_id(served: tuple[World, Server]) -> None:
    """The server resolves no dots: `%2E%2E` is the record `..`."""
    world, server = served
    await world.http.post("/collections/notes/records", json={"id": "..", "text": "x"})

    answer = await say(server, closing(b"GET /collections/notes/records/%2E%2E HTTP/1.1\r\n" + HOST))

    assert b'"id":".."' in answer


async def test_invalid_utf8_is_400_on_the_wire(served: tuple[World, Server]) -> None:
    """Bytes that are no UTF-8 are refused with a problem document."""
    answer = await say(served[1], closing(POST + b"Content-Type: application/json\r\n", b'{"id": "a", "text": "\xff"}'))

    assert answer.startswith(b"HTTP/1.1 400")
    assert b"application/problem+json" in answer


async def test_a_chunked_body_over_the_limit_is_413(served: tuple[World, Server]) -> None:
    """Bytes are counted as they arrive: a body without a Content-Length is bound too, and its sender reads why."""
    chunk = b"4000\r\n" + b" " * 0x4000 + b"\r\n"

    answer = await say(served[1], POST + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 8, b"0\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 413")
    assert b"urn:embedq:problem:too-large" in answer


async def test_a_declared_body_over_the_limit_is_413(served: tuple[World, Server]) -> None:
    """A usual client that sends too much reads a problem, not a broken connection."""
    async with httpx.AsyncClient(base_url=served[1].url) as http:
        answer = await http.post("/collections/notes/records", json={"id": "a", "text": "x" * LIMIT})

    assert answer.status_code == 413
    assert answer.headers["Content-Type"] == "application/problem+json"


async def test_an_endless_body_is_cut_off(served: tuple[World, Server]) -> None:
    """A sender that never ends is answered and closed after a few limits, not read for ever."""
    chunk = b"4000\r\n" + b" " * 0x4000 + b"\r\n"

    with pytest.raises(ConnectionError):
        await say(served[1], POST + b"Transfer-Encoding: chunked\r\n\r\n", *[chunk] * 10_000)


async def test_head_is_get_without_a_body(served: tuple[World, Server]) -> None:
    """HEAD answers as GET does, with the body left out."""
    answer = await say(served[1], closing(b"HEAD /health HTTP/1.1\r\n" + HOST))

    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("request_line", [b"GET /\xff HTTP/1.1\r\n", b"NONSENSE\r\n", b"GET / HTTP/9.9\r\n"])
async def test_what_is_no_http_is_refused_and_the_server_lives(
    served: tuple[World, Server], request_line: bytes
) -> None:
    """Bytes that are no HTTP are answered with 400 or closed, and the next request is served."""
    refused = await say(served[1], request_line + HOST + b"\r\n")

    assert refused == b"" or b" 400 " in refused.partition(b"\r\n")[0] or b" 404 " in refused.partition(b"\r\n")[0]
    assert (await say(served[1], closing(b"GET /health HTTP/1.1\r\n" + HOST))).startswith(b"HTTP/1.1 200")


async def test_a_foreign_host_is_refused_on_the_wire(served: tuple[World, Server]) -> None:
    """The Host header as the server sees it is what is judged."""
    answer = await say(served[1], closing(b"GET /health HTTP/1.1\r\nHost: evil.example\r\n"))

    assert answer.startswith(b"HTTP/1.1 403")


async def test_a_request_under_way_is_answered_before_the_server_leaves(served: tuple[World, Server]) -> None:
    """Stopping takes no new request and finishes those that were taken."""
    world, server = served
    await world.http.post("/collections/notes/records", json={"id": "a", "text": "x"})
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as http:
        draining = asyncio.create_task(http.post("/admin/queue/drain?timeout=30"))
        while not server._server.server_state.tasks:  # noqa: ASYNC110 the server has no event for it
            await asyncio.sleep(0)
        server.stop()
        await world.embed_all()
        answer = await draining

    assert answer.json()["status"] == "drained"


def test_no_address_but_loopback_without_a_key() -> None:
    """Another address is refused with the settings that help; with a key it is bound."""
    for host in ("0.0.0.0", "::"):  # noqa: S104 the address that must be refused
        with pytest.raises(SettingsError, match="EMBEDQ_API_KEY"):
            bound(host, 0, keyed=False)
    bound("0.0.0.0", 0, keyed=True).close()  # noqa: S104 with a key it is allowed
    bound("localhost", 0, keyed=False).close()


def test_a_taken_port_is_said_with_its_setting() -> None:
    """A port that is in use is refused before anything is served."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(SettingsError, match="EMBEDQ_PORT"):
            bound("127.0.0.1", other.getsockname()[1], keyed=False)


async def test_a_server_ends_when_it_is_told_to(make: Make) -> None:
    """It tells its URL once it takes requests, and returns when it is told to stop."""
    world, urls = await make(), asyncio.Queue[str]()
    server = Server(world.api, host="127.0.0.1", port=0, keyed=False)
    serving = asyncio.create_task(server.run(started=urls.put_nowait))

    async with httpx.AsyncClient() as http:
        assert (await http.get(f"{await urls.get()}/health")).status_code == 200
    server.stop()

    await asyncio.wait_for(serving, 10)
