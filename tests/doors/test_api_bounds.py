"""What a request may take before anybody has shown a key, seen through raw sockets."""

import pytest
from tests.doors.raw import AUTH, HEALTH, POST, Opened, until

from embedq.telemetry import Event


async def test_a_head_without_end_is_431(opened: Opened) -> None:
    """Headers that never end are cut off at their bound, in pieces or in one header."""
    async with opened() as door:
        for line in (b"x-%d: " + b"a" * 1000 + b"\r\n", b"a" * 1000):
            pieces = [line % i if b"%d" in line else line for i in range(1000)]
            answer = await door.say(HEALTH + b"x: ", *pieces)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 431")
        assert await door.healthy()


async def test_a_whole_head_over_the_bound_is_431_and_said(opened: Opened) -> None:
    """A head that comes in one piece is judged by its exact size; its sender reads why."""
    async with opened() as door:
        answer = await door.say(HEALTH + b"Cookie: " + b"a" * 33_000 + b"\r\n\r\n")

        assert answer.startswith(b"HTTP/1.1 431")
        assert b"urn:embedq:problem:head-too-large" in answer
        assert (await door.say(HEALTH + b"Cookie: " + b"a" * 31_000 + b"\r\nConnection: close\r\n\r\n"))[9:12] == b"200"


async def test_many_small_headers_are_431(opened: Opened) -> None:
    """The number of headers is bound, too: each costs more than its bytes."""
    async with opened() as door:
        few = HEALTH + b"".join(b"h%d: a\r\n" % i for i in range(100))

        assert (await door.say(few + b"Connection: close\r\n\r\n"))[9:12] == b"200"
        assert (await door.say(HEALTH + b"a: b\r\n" * 200 + b"\r\n"))[9:12] == b"431"


async def test_a_url_over_the_bound_is_refused(opened: Opened) -> None:
    """A request line without end is a head without end."""
    async with opened() as door:
        answer = await door.say(b"GET /" + b"a" * 100_000)

        assert answer[9:12] == b"431"


async def test_a_slow_head_is_408(opened: Opened) -> None:
    """A head must be whole in time, however often a byte of it comes; a silent connection is closed."""
    async with opened(head_seconds=0.1) as door:
        silent, slow = await door.connect(), await door.connect()
        await slow.send(HEALTH)

        assert (await slow.rest()).startswith(b"HTTP/1.1 408")
        assert await silent.rest() == b""


async def test_empty_lines_between_requests_end_in_time(opened: Opened) -> None:
    """After a request, too, what is no request keeps a connection open only as long as a head may take."""
    async with opened(head_seconds=0.1) as door:
        wire = await door.connect()
        await wire.send(HEALTH + b"\r\n")
        await wire.head()
        await wire.send(b"\r\n")

        assert b"HTTP/1.1 2" not in await wire.rest()


async def test_a_slow_body_is_closed(opened: Opened) -> None:
    """A body must keep up a pace: one that stands still is closed, though its sender holds the key."""
    async with opened(body_seconds=0.1) as door:
        answer = await door.say(POST + AUTH + b"Content-Length: 1000\r\n\r\n{")

        assert answer == b""
        assert [event for event, *_ in door.world.events if event is Event.REQUEST_FAILED] == []


async def test_a_chunk_without_content_is_no_pace(opened: Opened) -> None:
    """Bytes that are no body, such as extensions of a chunk, do not keep a body alive."""
    async with opened(body_seconds=0.1) as door:
        wire = await door.connect()
        await wire.send(POST + AUTH + b"Transfer-Encoding: chunked\r\n\r\n5;")
        with pytest.raises(ConnectionError):
            await wire.send(*[b"x" * 10_000] * 100_000)


async def test_a_body_that_keeps_its_pace_is_taken(opened: Opened) -> None:
    """The time for a body grows with what has come of it, and no further."""
    async with opened(body_seconds=10, slowest=1) as door:
        limiter, now = door.server._server._limiter, [0.0]
        limiter.monotonic = lambda: now[0]
        body = b'{"id": "a", "text": "%s"}' % (b"x" * 50)
        head = POST + AUTH + b"Content-Length: %d\r\n\r\n" % len(body)
        wire, late = await door.connect(), await door.connect()
        await wire.send(head, body[:40])
        await late.send(head, body[:20])
        held = door.server._server.server_state.connections
        await until(lambda: {one._body_bytes for one in held} == {20, 40})

        now[0] = 35.0  # ten seconds and twenty bytes are over, ten and forty are not
        limiter.sweep(held)
        await wire.send(body[40:])

        assert (await wire.head()).startswith(b"HTTP/1.1 201")
        assert await late.rest() == b""


async def test_no_body_is_read_before_the_key(opened: Opened) -> None:
    """Without a key the answer comes before the body; what follows is dropped up to a bound, then it is closed."""
    async with opened(unread_bytes=100_000) as door:
        wire = await door.connect()
        await wire.send(POST + b"Content-Length: 1000000000\r\n\r\n")
        assert (await wire.head()).startswith(b"HTTP/1.1 401")
        with pytest.raises(ConnectionError):
            await wire.send(*[b" " * 65_536] * 300)  # more than the kernels of both sides hold


async def test_a_short_unread_body_leaves_the_connection_usable(opened: Opened) -> None:
    """A client that sent a small body in vain reads its 401 and goes on with the same connection."""
    async with opened() as door:
        wire = await door.connect()
        await wire.send(POST + b"Content-Length: 5\r\n\r\n", b"12345", HEALTH + b"Connection: close\r\n\r\n")
        answers = await wire.rest()

        assert answers.startswith(b"HTTP/1.1 401")
        assert b"HTTP/1.1 200" in answers


async def test_an_unread_body_that_never_comes_is_closed_in_silence(opened: Opened) -> None:
    """A client that was refused and sends no body is closed without a second answer."""
    async with opened(unread_seconds=0.1) as door:
        answer = await door.say(POST + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n")

        assert answer.count(b"HTTP/1.1 ") == 1
        assert answer.startswith(b"HTTP/1.1 401")


async def test_a_key_in_a_trailer_is_none(opened: Opened) -> None:
    """What comes behind a body is no header: an Authorization there opens nothing."""
    async with opened() as door:
        for body in (b"0\r\n", b"2\r\n{}\r\n0\r\n"):
            head = b"GET /collections HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            wire = await door.connect()
            await wire.send(head + body + AUTH + b"\r\n")

            assert (await wire.head()).startswith(b"HTTP/1.1 401")


async def test_two_keys_are_none(opened: Opened) -> None:
    """A header that is sent twice is refused, so that no proxy before us can have judged the other one."""
    async with opened() as door:
        for other in (b"Authorization: Bearer wrong\r\n", AUTH):
            for pair in (AUTH + other, other + AUTH):
                ask = b"GET /collections HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + pair + b"\r\n"
                assert (await door.say(ask)).startswith(b"HTTP/1.1 401")
