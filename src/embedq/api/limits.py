"""How large a request may be."""

from dataclasses import dataclass

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from embedq.api.problems import TOO_LARGE, answer

MAX_URL_BYTES = 16_384  # of path and query together; an id of 512 bytes takes at most 1,536
DRAIN_FACTOR = 4  # times the limit are read and discarded, so that the sender can read the refusal


class Limits:
    """Counts the bytes of each request as they arrive; Content-Length is not trusted."""

    def __init__(self, app: ASGIApp, *, max_body_bytes: int) -> None:
        """Wrap `app`."""
        self._app = app
        self._limit = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it with 413."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MAX_URL_BYTES:
            detail = f"the URL has more than {MAX_URL_BYTES} bytes: an id has at most 512"
            await answer(TOO_LARGE, detail)(scope, receive, send)
        else:
            await self._app(scope, _Body(receive, self._limit).receive, send)


@dataclass(slots=True)
class _Body:
    """A body that is being received."""

    source: Receive
    limit: int
    size: int = 0
    more: bool = True

    async def receive(self) -> Message:
        """Pass one piece on, unless it exceeds the limit."""
        message = await self._next()
        if self.size <= self.limit:
            return message
        await self._drain()
        raise HTTPException(  # FastAPI lets this type pass while it reads a body
            TOO_LARGE.status,
            f"the body has more than {self.limit} bytes: send fewer records at once, or raise EMBEDQ_MAX_REQUEST_BYTES",
            headers={"Connection": "close"},
        )

    async def _drain(self) -> None:
        """Discard the rest, up to a bound: closing at once would cut the response off."""
        while self.more and self.size <= self.limit * DRAIN_FACTOR:
            await self._next()

    async def _next(self) -> Message:
        message = await self.source()
        self.size += len(message.get("body", b""))
        self.more = message["type"] == "http.request" and message.get("more_body", False)
        return message
