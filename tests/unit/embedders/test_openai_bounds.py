"""What a provider sends is bounded: neither its size nor its speed takes a process down."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.embedders.test_openai import KEY, make

from embedq.embedders.http_answers import retry_after
from embedq.embedders.http_bounds import MOST_ERROR_BYTES
from embedq.embedders.openai_embedder import rows_of
from embedq.embedding import Purpose
from embedq.errors import EmbedderError, NotNow, Permanent, Transient

MEGABYTE = 1 << 20


@asynccontextmanager
async def answering(head: str, body: bytes, *, times: int = 1) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Answer every call with this body, so many times; list the requests, and what was sent before they ended."""
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 {head}\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n".encode())
        left = times
        try:
            while left:
                writer.write(body)
                await writer.drain()
                requests.append(body)
                left -= 1
        except ConnectionError:
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", requests


async def refusal(base_url: str) -> EmbedderError:
    """Embed one text in vain; say why."""
    embedder = make(base_url)
    try:
        async with asyncio.timeout(30):
            with pytest.raises(EmbedderError) as refused:
                await embedder.embed(["a text"], Purpose.DOCUMENT)
    finally:
        await embedder.close()
    return refused.value


async def test_an_answer_that_is_too_large_is_refused() -> None:
    """It is larger than one vector can be: it is not read to the end, and is tried again later."""
    async with answering("200 OK", b" " * MEGABYTE, times=64) as (base_url, _):
        refused = await refusal(base_url)

    assert isinstance(refused, Transient)
    assert "larger than its vectors" in str(refused)


async def test_a_compressed_answer_is_refused() -> None:
    """What it unpacks to has no bound: plain answers are asked for, and only those are read."""
    async with answering("200 OK\r\ncontent-encoding: gzip", gzip.compress(b" " * MEGABYTE)) as (base_url, requests):
        refused = await refusal(base_url)

    assert isinstance(refused, Transient)
    assert "compressed" in str(refused)
    assert b"accept-encoding: identity" in requests[0].lower()


@pytest.mark.parametrize("encoding", ["", "\r\ncontent-encoding: gzip"], ids=["plain", "compressed"])
async def test_an_error_that_is_too_large_is_cut(encoding: str) -> None:
    """Its status counts, whatever comes after it."""
    async with answering(f"429 Too Many Requests\r\nretry-after: 7{encoding}", b"x" * MEGABYTE, times=64) as at:
        refused = await refusal(at[0])
        sent = at[1][1:]

    assert len(sent) < 64

    assert isinstance(refused, NotNow)
    assert refused.retry_after is not None
    assert refused.retry_after.total_seconds() == 7
    assert len(str(refused)) < MOST_ERROR_BYTES


async def test_an_error_that_is_small_is_told() -> None:
    """The provider's own words are kept, without the key."""
    said = json.dumps({"error": {"message": f"no such input, {KEY}"}}).encode()
    async with answering("400 Bad Request", said) as (base_url, _):
        refused = await refusal(base_url)

    assert isinstance(refused, Permanent)
    assert "no such input, ***" in str(refused)


def test_a_date_out_of_the_calendar_is_no_date() -> None:
    """The refusal stays one, without a span."""
    assert retry_after({"retry-after": "Mon, 01 Jan 99999999999 00:00:00 GMT"}) is None


def test_a_number_out_of_all_bounds_is_no_vector() -> None:
    """It is larger than any float."""
    with pytest.raises(Transient):
        rows_of({"data": [{"index": 0, "embedding": [10**400]}]}, 1)
