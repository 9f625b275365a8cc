"""Ids in paths may contain slashes, so routes are matched on the path as it was sent."""

from urllib.parse import quote, unquote, unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import ASGIApp, Receive, Scope, Send

from embedq.errors import Invalid


class Segment(Convertor[str]):
    """One path segment, percent-decoded only after its route was found."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """Decode the segment."""
        try:
            return unquote(value, errors="strict")
        except UnicodeDecodeError as error:
            raise Invalid(f"the path part {value!r} is no percent-encoded UTF-8") from error

    def to_string(self, value: str) -> str:
        """Encode an id for a path."""
        return quote(value, safe="")


register_url_convertor("segment", Segment())


class RawPaths:
    """Routes by the encoded path: the decoded one cannot distinguish `a%2Fb` from `a/b`.

    HEAD is routed as GET; the server leaves the body out.
    """

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its encoded path."""
        if scope["type"] == "http":
            path = routed(scope.get("raw_path") or quote(scope["path"]).encode())
            scope = {**scope, "path": path, "method": "GET" if scope["method"] == "HEAD" else scope["method"]}
        await self._app(scope, receive, send)


def routed(raw: bytes) -> str:
    """Normalise the encoding of a path for matching routes."""
    if b"%" not in raw:
        return raw.decode("latin-1")
    return "/".join(quote(unquote_to_bytes(part), safe="") for part in raw.split(b"/"))
