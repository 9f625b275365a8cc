"""Limits on connections before a key is checked: bytes, seconds, and how many there are."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from embedq.api.problems import BUSY, HEAD_TOO_LARGE, MALFORMED, TIMED_OUT, Kind, document
from embedq.telemetry import Event, Telemetry

QUIET_SECONDS = 60.0  # at most one report about connections per interval
CLOSING_HEADERS = b"content-type: application/problem+json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What one connection may take, and how many there may be."""

    connections: int = 512
    head_bytes: int = 32 * 1024  # request line and headers
    headers: int = 128
    pipelined: int = 16  # requests that are sent before the current one is answered
    unread_bytes: int = 1 << 20  # of a body that no route reads, after its response
    head_seconds: float = 10
    body_seconds: float = 30  # plus the time that the body takes at the slowest rate
    unread_seconds: float = 5
    send_seconds: float = 30  # plus the time that the response takes at the slowest rate
    slowest: int = 16 * 1024  # bytes a second


class BoundExceeded(Exception):
    """A request exceeds a bound; raised to stop the parser."""


class ConnectionLimiter:
    """Admits new connections, closes those that are overdue, and reports both once a minute."""

    def __init__(
        self, bounds: Bounds, telemetry: Telemetry | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """Keep to these bounds."""
        self.bounds = bounds
        self.monotonic = monotonic
        self._telemetry = telemetry or Telemetry()
        self._refused: Counter[str] = Counter()
        self._quiet_until = 0.0

    def admit(self, new: "Connection", others: Iterable["Connection"]) -> bool:
        """Make room for a connection: close the longest idle one of the address that has the most."""
        held = [one for one in others if not one.ended and one is not new]
        if len(held) < self.bounds.connections:
            return True
        idle = [one for one in held if not one.busy]
        if not idle:
            self.note("refused")
            return False
        shares = Counter(one.address for one in idle)
        min(idle, key=lambda one: (one.receiving, -shares[one.address], one.active_at)).end()
        self.note("dropped")
        return True

    def sweep(self, connections: Iterable["Connection"]) -> None:
        """Close overdue connections, and report what was refused since the last report."""
        now = self.monotonic()
        for one in list(connections):
            if one.overdue(now):
                self.note("timed_out")
        if self._refused and now >= self._quiet_until:
            self._quiet_until = now + QUIET_SECONDS
            self._telemetry.emit(Event.CONNECTIONS_BOUNDED, level="warning", **self._refused)
            self._refused.clear()

    def note(self, what: str) -> None:
        """Count a refusal: one log line each would fill the disk."""
        self._refused[what] += 1


class BoundedConfig(uvicorn.Config):
    """A server's configuration, and the limiter of its connections."""

    limiter: ConnectionLimiter


class Connection(HttpToolsProtocol):
    """One client's connection: uvicorn's own, with bounds that uvicorn does not have.

    uvicorn bounds neither the head of a request, nor the time it takes, nor a body that no route reads, nor pipelined
    requests, nor a client that does not read; and it treats a trailer as a header.
    """

    config: BoundedConfig

    def __init__(self, config: BoundedConfig, *args: Any, **others: Any) -> None:  # noqa: ANN401 uvicorn's own
        """Use the limiter of this configuration."""
        super().__init__(config, *args, **others)
        self._limiter = config.limiter
        self._bounds = config.limiter.bounds
        self._refusal: tuple[Kind, str] | None = None
        self._in_head = True
        self._taken = 0  # bytes since the last complete part of a request
        self._body_since, self._body_bytes = 0.0, 0
        self._wait_until: float | None = None  # for the client's next bytes; None: none are expected
        self._send_until: float | None = None  # for the client to read what was sent
        self.ended = False
        self.active_at = self._limiter.monotonic()

    @property
    def address(self) -> str:
        """The client's address."""
        return self.client[0] if self.client else ""

    @property
    def busy(self) -> bool:
        """Say whether a complete request is not yet answered."""
        return self._answering and not self.cycle.more_body

    @property
    def receiving(self) -> bool:
        """Say whether a request has begun, but its body is still arriving."""
        return self._answering and self.cycle.more_body

    @property
    def _begun(self) -> bool:
        """Say whether there has been a request."""
        cycle: object = self.cycle  # None before the first, despite uvicorn's types
        return cycle is not None

    @property
    def _answering(self) -> bool:
        return self._begun and not self.cycle.response_complete

    def end(self) -> None:
        """Close at once, without sending what is buffered."""
        self.ended = True
        self.transport.abort()

    def overdue(self, now: float) -> bool:
        """Close this connection if its client has missed a deadline; say whether it has."""
        if self.transport.is_closing() and self._send_until is None:
            self._send_until = now + self._bounds.send_seconds
        if self._send_until is not None and now > self._send_until and not self.ended:
            self.end()
            return True
        if self._wait_until is None or now <= self._wait_until or self.transport.is_closing():
            return False
        if self.flow.read_paused:  # it is the server that does not read
            self._wait_until = now + self._bounds.body_seconds
            return False
        if self._unread or not self._taken:  # a response now would be read as that of another request
            self.transport.close()
        else:
            self._refuse(TIMED_OUT, "the request did not arrive in time")
        return True

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 uvicorn's own
        """Take a slot, or refuse the connection if all are busy."""
        super().connection_made(transport)
        self._wait_until = self._limiter.monotonic() + self._bounds.head_seconds
        if not self._limiter.admit(self, self.connections):  # type: ignore[arg-type]  # all are of this class
            self._refuse(BUSY, "all connections are busy: try again in a moment")

    def connection_lost(self, exc: Exception | None) -> None:
        """Mark the connection as ended."""
        self.ended = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes that arrive without completing a part of a request."""
        self._taken += len(data)
        if self._wait_until is None and not self._answering:
            self._wait_until = self._limiter.monotonic() + self._bounds.head_seconds
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._taken > self._bounds.head_bytes:
            self._refuse(HEAD_TOO_LARGE, f"request line and headers have more than {self._bounds.head_bytes} bytes")
        elif self._unread and self._taken > self._bounds.unread_bytes:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what cannot be parsed, with the reason if it is one of our bounds."""
        kind, detail = self._refusal or (MALFORMED, msg)
        self._refuse(kind, detail)

    def on_message_begin(self) -> None:
        """Wait for the head of a request."""
        super().on_message_begin()
        self._in_head = True
        self._wait_until = self._limiter.monotonic() + self._bounds.head_seconds

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. Trailers after the body are ignored: a key is not accepted there."""
        if not self._in_head:
            return
        if len(self.headers) >= self._bounds.headers:
            self._exceeded(HEAD_TOO_LARGE, f"the request has more than {self._bounds.headers} headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start the request, if its head is within bounds."""
        size = len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)
        if size > self._bounds.head_bytes:
            self._exceeded(HEAD_TOO_LARGE, f"request line and headers have more than {self._bounds.head_bytes} bytes")
        if len(self.pipeline) >= self._bounds.pipelined:
            self._exceeded(MALFORMED, f"more than {self._bounds.pipelined} requests were sent ahead of their answers")
        self._in_head, self._taken = False, 0
        self.active_at = self._body_since = self._limiter.monotonic()
        self._body_bytes = 0
        self._wait_until = self._body_since + self._bounds.body_seconds
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body, and extend the deadline of the next in proportion to its size."""
        super().on_body(body)
        if not self._unread:
            self._taken = 0
            self._body_bytes += len(body)
            self._wait_until = self._body_since + self._bounds.body_seconds + self._body_bytes / self._bounds.slowest

    def on_message_complete(self) -> None:
        """Clear the deadline: the request is complete."""
        super().on_message_complete()
        self.cycle.more_body = False
        self._wait_until, self._taken = None, 0

    def on_response_complete(self) -> None:
        """Let the client finish sending an unread body for a short time, so that it reads its response."""
        super().on_response_complete()
        if self._unread:
            self._taken = 0
            self._wait_until = self._limiter.monotonic() + self._bounds.unread_seconds

    def pause_writing(self) -> None:
        """Set a deadline for a client that does not read its response."""
        super().pause_writing()
        size = self.transport.get_write_buffer_size()
        self._send_until = self._limiter.monotonic() + self._bounds.send_seconds + size / self._bounds.slowest

    def resume_writing(self) -> None:
        """Clear the deadline: the client has read."""
        super().resume_writing()
        self._send_until = None

    @property
    def _unread(self) -> bool:
        """Say whether the response is sent while the body of its request is still arriving."""
        return self._begun and self.cycle.response_complete and self.cycle.more_body

    def _exceeded(self, kind: Kind, detail: str) -> None:
        self._refusal = kind, detail
        raise BoundExceeded(detail)

    def _refuse(self, kind: Kind, detail: str) -> None:
        """Respond with a problem and close; if a response is in progress, only close."""
        if not self._answering:
            body = document(kind, detail)
            status = b"HTTP/1.1 %d %s\r\n" % (kind.status, kind.title.encode())
            self.transport.write(status + CLOSING_HEADERS % len(body) + body)
        self.transport.close()
