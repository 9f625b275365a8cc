"""Bounds on a provider's answers, so that none of them exhausts the memory of a process or blocks its event loop."""

from collections.abc import AsyncIterator
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any

from embedq.errors import Transient

PLAIN = {"Accept-Encoding": "identity"}  # what a compressed answer unpacks to cannot be bounded
VALUE_BYTES = 32  # of one number of a vector, written in decimals
MOST_DIMENSIONS = 16_384  # if the model's are not known
MOST_ERROR_BYTES = 64 << 10
OTHER_BYTES = 1 << 20  # of an answer, beside its vectors

_most: ContextVar[int] = ContextVar("most bytes of an answer", default=OTHER_BYTES)


def expect(inputs: int, dimensions: int | None) -> None:
    """Bound the answers to this task's calls by what so many vectors can take."""
    _most.set(inputs * (dimensions or MOST_DIMENSIONS) * VALUE_BYTES + OTHER_BYTES)


async def bound(response: Any) -> None:  # noqa: ANN401 of the SDK's own HTTP library
    """Bound an answer, as a response hook of httpx or httpx2. An error's body is cut: its status is needed."""
    is_error = response.status_code >= HTTPStatus.BAD_REQUEST
    is_encoded = response.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}
    if is_encoded and not is_error:
        raise Transient("The provider's answer is compressed, which was not accepted.", code="bad_answer")
    if is_encoded:
        del response.headers["content-encoding"]
    limit = _most.get() if not is_error else 0 if is_encoded else MOST_ERROR_BYTES
    response.stream = _bounded(response.stream, limit, cut=is_error)


def _bounded(stream: Any, most: int, *, cut: bool) -> Any:  # noqa: ANN401 of the SDK's own HTTP library
    """Wrap a stream: its answer is cut, or refused, at so many bytes."""

    async def read(_: object) -> AsyncIterator[bytes]:
        left = most
        async for chunk in stream:
            if len(chunk) > left and not cut:
                raise Transient("The provider's answer is larger than its vectors can be.", code="bad_answer")
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0 and cut:
                return

    async def close(_: object) -> None:
        await stream.aclose()

    base = next(kind for kind in type(stream).__mro__ if kind.__name__ == "AsyncByteStream")
    return type("BoundedStream", (base,), {"__aiter__": read, "aclose": close})()
