"""A loopback server for the OpenAI embeddings API with scripted faults.

In a test it runs in the test's own event loop; `python -m embedq.testing.provider --port 8089 --latency 0.05` runs it
as a separate process, to rehearse with `OPENAI_BASE_URL=http://127.0.0.1:8089/v1`.
"""

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, Self

from embedq.embedders.faults import Faults, Kind, Mishap, Rehearsal
from embedq.testing.provider_answers import completed, refused

_PATH = "/v1/embeddings"
_LARGEST_HEAD = 65_536
_LARGEST_BODY = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    path: str
    headers: Mapping[str, str]  # names in lower case
    body: Mapping[str, Any]

    @property
    def texts(self) -> list[str]:
        """The texts, in either form of the request."""
        given = self.body.get("input", [])
        return [given] if isinstance(given, str) else list(given)


class EmbeddingProvider:
    """Answers `POST /v1/embeddings` with vectors made from the texts' hashes, and records its requests."""

    def __init__(self, *, dimensions: int = 384, faults: Faults | None = None, port: int = 0) -> None:
        """Set the vectors' length, the faults, and a port (0: any free one)."""
        self.dimensions = dimensions
        self.headers: tuple[tuple[str, str], ...] = ()  # of every successful answer
        self.requests: list[Request] = []
        self._arrived = asyncio.Event()
        self._port = port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.order(faults or Faults())

    def order(self, faults: Faults) -> None:
        """Play this script from the next request on."""
        self._faults = faults
        self._rehearsal = Rehearsal(faults)

    async def asked(self, times: int = 1) -> None:
        """Wait until this many requests have arrived in total."""
        while len(self.requests) < times:
            self._arrived.clear()
            await self._arrived.wait()

    @property
    def base_url(self) -> str:
        """The value for `OPENAI_BASE_URL`."""
        return f"http://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> Self:
        """Listen on loopback."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=_LARGEST_HEAD)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop listening, and drop waiting clients."""
        if self._server is not None:
            self._server.close()
            for writer in list(self._open):
                writer.transport.abort()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError):
            pass  # the client left, or does not speak HTTP
        finally:
            self._open.discard(writer)
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await _read(reader)
        if request.path != _PATH:
            return await _send(writer, HTTPStatus.NOT_FOUND, refused(f"no such route: {request.path}"))
        self.requests.append(request)
        self._arrived.set()
        mishap = self._rehearsal.next()
        await asyncio.sleep(self._faults.latency)
        if any(map(self._faults.refuses, request.texts)):
            mishap = Mishap(kind=Kind.STATUS, status=HTTPStatus.BAD_REQUEST)
        if mishap.kind in {Kind.HANG, Kind.TIMEOUT}:
            await reader.read()  # until the client gives up, or the server closes
            return False
        return await self._answer(request, mishap, writer)

    async def _answer(self, request: Request, mishap: Mishap, writer: asyncio.StreamWriter) -> bool:
        match mishap.kind:
            case Kind.STATUS:
                body = refused(mishap.message or f"told to answer {mishap.status}", code=str(mishap.status))
                return await _send(writer, mishap.status, body, _headers(mishap))
            case Kind.REFUSED:
                writer.transport.abort()
                return False
        body = completed(request.body, request.texts, self.dimensions, mishap.kind)
        if mishap.kind is Kind.RESET:
            return await _break_off(writer, body)
        if mishap.kind is Kind.CUT:
            body = body[: len(body) // 2]  # complete as HTTP, cut as JSON
        return await _send(writer, HTTPStatus.OK, body, self.headers)


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    _, path, _ = head[0].split(" ", 2)
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = int(headers.get("content-length", "0"))
    if length > _LARGEST_BODY:
        raise ValueError("the body is too large")
    raw = await reader.readexactly(length)
    body = json.loads(raw) if raw else {}
    return Request(path, headers, body if isinstance(body, dict) else {})


async def _send(
    writer: asyncio.StreamWriter, status: int, body: bytes, headers: tuple[tuple[str, str], ...] = ()
) -> bool:
    writer.write(_head(status, len(body), headers) + body)
    await writer.drain()
    return True


async def _break_off(writer: asyncio.StreamWriter, body: bytes) -> bool:
    writer.write(_head(HTTPStatus.OK, len(body)) + body[: len(body) // 2])
    await writer.drain()
    writer.close()
    return False


def _head(status: int, length: int, headers: tuple[tuple[str, str], ...] = ()) -> bytes:
    known = {each.value: each.phrase for each in HTTPStatus}
    lines = [f"HTTP/1.1 {int(status)} {known.get(status, 'Unknown')}", "Content-Type: application/json"]
    lines += [f"Content-Length: {length}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _headers(mishap: Mishap) -> tuple[tuple[str, str], ...]:
    asked = () if mishap.retry_after is None else (("Retry-After", f"{mishap.retry_after:g}"),)
    return (*asked, *mishap.headers)


async def _run(arguments: argparse.Namespace) -> None:
    faults = Faults.parse(arguments.faults)
    if arguments.latency:
        faults = replace(faults, latency=arguments.latency)
    async with EmbeddingProvider(dimensions=arguments.dimensions, faults=faults, port=arguments.port) as provider:
        sys.stdout.write(json.dumps({"event": "started", "base_url": provider.base_url}) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


def main() -> None:
    """Run the server until it is interrupted."""
    parser = argparse.ArgumentParser(prog="python -m embedq.testing.provider", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free port; the first line of output names it")
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds per request")
    parser.add_argument("--faults", default="", help="as in EMBEDQ_FAKE_FAULTS, such as 429=3:2.5,500=2,bad=POISON")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
