"""How many connections there are, how long work for them goes on, and who gives way, seen through raw sockets."""

import asyncio
from typing import Any

import pytest
from tests.doors.raw import AUTH, HEALTH, Opened, until

from embedq.telemetry import Event


async def test_requests_sent_ahead_are_bound(opened: Opened) -> None:
    """A few requests may be sent before their answers; thousands are cut off, not queued."""
    async with opened() as door:
        few = await door.say((HEALTH + b"\r\n") * 9 + HEALTH + b"Connection: close\r\n\r\n")
        many = await door.say((HEALTH + b"\r\n") * 5000)

        assert few.count(b"HTTP/1.1 200") == 10
        assert many.count(b"HTTP/1.1 200") < 100
        assert await door.healthy()


async def test_idle_connections_shut_nobody_out(opened: Opened) -> None:
    """Over the bound the connection that waits longest gives way, the newest is served, and one line tells of it."""
    async with opened(connections=20) as door:
        idle = [await door.connect() for _ in range(100)]

        assert await door.healthy()
        assert await idle[0].rest() == b""
        await idle[-1].send(HEALTH + b"Connection: close\r\n\r\n")
        assert (await idle[-1].rest()).startswith(b"HTTP/1.1 200")
        await until(lambda: bool(door.told()))
        assert sum(facts["dropped"] for facts in door.told()) >= 1
        assert len(door.told()) == 1


async def test_a_request_under_way_gives_way_to_nobody(opened: Opened) -> None:
    """A connection whose request is being answered is never dropped; where all are, a new one is told to come again."""
    async with opened(connections=2) as door:
        await door.world.client.put("notes", [{"id": "a", "text": "x"}])
        drains = [await door.connect() for _ in range(2)]
        for wire in drains:
            await wire.send(b"POST /admin/queue/drain?timeout=30 HTTP/1.1\r\nHost: localhost\r\n" + AUTH + b"\r\n")
        await until(lambda: len(door.server._server.server_state.tasks) == 2)

        assert (await (await door.connect()).rest()).startswith(b"HTTP/1.1 503")
        await door.world.embed_all()
        assert [(await wire.head())[9:12] for wire in drains] == [b"200", b"200"]


async def test_a_drain_ends_with_its_client(opened: Opened) -> None:
    """A client that leaves takes its drain along: nothing goes on looking at the queue for it."""
    async with opened() as door:
        await door.world.client.put("notes", [{"id": "a", "text": "x"}])
        wires = [await door.connect() for _ in range(20)]
        for wire in wires:
            await wire.send(b"POST /admin/queue/drain?timeout=600 HTTP/1.1\r\nHost: localhost\r\n" + AUTH + b"\r\n")
        tasks = door.server._server.server_state.tasks
        await until(lambda: len(tasks) == 20)
        for wire in wires:
            wire.writer.close()

        await until(lambda: not tasks)
        assert [event for event, *_ in door.world.events if event is Event.REQUEST_FAILED] == []


async def test_readiness_costs_one_look_for_all_without_a_key(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers without a key share one look at the database; with a key each gets its own."""
    async with opened() as door:
        looks, health = [], door.world.operator.health

        async def counted() -> Any:  # noqa: ANN401 whatever it answers
            looks.append(1)
            return await health()

        monkeypatch.setattr(door.world.api.state.readiness, "_health", counted)
        ask = b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        now = [1000.0]
        monkeypatch.setattr("embedq.api.readiness.monotonic", lambda: now[0])
        answers = [*await asyncio.gather(*(door.say(ask) for _ in range(20))), await door.say(ask)]

        assert {answer[9:12] for answer in answers} == {b"200"}
        assert len(looks) == 1
        now[0] += 1.5
        await door.say(ask)
        assert len(looks) == 2


async def test_a_hanging_database_keeps_no_keyless_caller(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the database does not answer, a caller without a key is told so soon."""
    monkeypatch.setattr("embedq.api.readiness.WAIT_SECONDS", 0.05)
    async with opened() as door:
        monkeypatch.setattr(door.world.api.state.readiness, "_health", asyncio.Event().wait)

        answer = await door.say(b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")

        assert answer.startswith(b"HTTP/1.1 503")
        assert b"not_ready" in answer


async def test_a_reader_that_does_not_read_is_cut_off(opened: Opened) -> None:
    """An answer that nobody takes is not kept: its connection ends, whatever is still to be sent."""
    async with opened(send_seconds=0.1, slowest=1 << 30) as door:
        await door.world.client.put("notes", [{"id": f"{i}", "text": "x" * 1_000_000} for i in range(20)])
        wire = await door.connect()
        wire.writer.transport.pause_reading()
        await wire.send(b"GET /collections/notes/records HTTP/1.1\r\nHost: localhost\r\n" + AUTH + b"\r\n")
        connections = door.server._server.server_state.connections

        await until(lambda: bool(connections))
        await until(lambda: not connections)


async def test_an_upgrade_is_served_as_what_it_is(opened: Opened) -> None:
    """A request to become a WebSocket is answered as plain HTTP, and asks for a key as any other."""
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: YQ==\r\n\r\n"
    async with opened() as door:
        wire = await door.connect()
        await wire.send(b"GET /collections HTTP/1.1\r\nHost: localhost\r\n" + upgrade)

        assert (await wire.head()).startswith(b"HTTP/1.1 401")
        assert await door.healthy()
