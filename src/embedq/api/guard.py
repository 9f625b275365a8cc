"""Access control: by keys if any are set, else by loopback host and origin."""

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from embedq.api.problems import FORBIDDEN, UNAUTHORIZED, answer

OPEN_PATHS = frozenset({"/health", "/health/ready"})  # the second shows more to callers with a key
OPEN_PAGES = frozenset({"/", "/docs", "/openapi.json"})  # without data: a browser opens them before it has a key
DOCS_PARTS = "/docs/"
EMBED = "/embed"
READ_METHODS = frozenset({"GET", "OPTIONS"})
ODD = frozenset("@\\, \t")  # in no host that a browser sends; parsers disagree about them
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
TRUSTED = "embedq.trusted"  # in the scope: whether the caller may see details


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """The keys that callers must send. Without any, only this machine is served."""

    api: str | None = None
    read: str | None = None  # for GET routes, search and embed only

    def __bool__(self) -> bool:
        """Say whether any key is set."""
        return bool(self.api or self.read)


class Guard:
    """Lets a request through, or answers 401 or 403."""

    def __init__(self, app: ASGIApp, *, keys: Keys, hosts: Iterable[str] = ()) -> None:
        """Wrap `app`; `hosts` are the names it is reached by, besides those of the loopback."""
        self._app = app
        self._keys = keys
        self._hosts = LOOPBACK | {host.strip("[]").lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request by its headers alone."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._by_key(scope) if self._keys else self._by_origin(scope)
        await (refusal or self._app)(scope, receive, send)

    def _by_key(self, scope: Scope) -> Response | None:
        given = _header(scope, b"authorization")
        full, reads = _matches(given, self._keys.api), _matches(given, self._keys.read)
        scope[TRUSTED] = full or reads
        if full or _is_open(_path(scope)) or (reads and _only_reads(scope)):
            return None
        if reads:
            return answer(FORBIDDEN, "this is the read key: writing and operating need EMBEDQ_API_KEY")
        return answer(UNAUTHORIZED, "send the key as `Authorization: Bearer KEY`")

    def _by_origin(self, scope: Scope) -> Response | None:
        scope[TRUSTED] = True
        host, origin = _header(scope, b"host"), _header(scope, b"origin")
        if _hostname(f"//{(host or b'').decode('latin-1')}") not in self._hosts:
            return answer(
                FORBIDDEN, "without EMBEDQ_API_KEY only requests to localhost are served: set it to serve others"
            )
        if origin is not None and _hostname(origin.decode("latin-1")) not in self._hosts:
            return answer(FORBIDDEN, "without EMBEDQ_API_KEY no other site's pages are served: set it to serve them")
        return None


def _matches(given: bytes | None, key: str | None) -> bool:
    scheme, _, token = (given or b"").partition(b" ")
    return bool(key) and scheme.lower() == b"bearer" and hmac.compare_digest(token.strip(), (key or "").encode())


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS | OPEN_PAGES or path.startswith(DOCS_PARTS)


def _only_reads(scope: Scope) -> bool:
    asks = scope["method"] == "POST" and (_is_search(_path(scope)) or _path(scope) == EMBED)
    return scope["method"] in READ_METHODS or asks


def _is_search(path: str) -> bool:
    parts = path.split("/")
    return (
        len(parts) == len(["", "collections", "{c}", "search"]) and parts[1] == "collections" and parts[3] == "search"
    )


def _path(scope: Scope) -> str:
    return str(scope["path"])


def _header(scope: Scope, name: bytes) -> bytes | None:
    """Read a header. A repeated one is joined, so that no two parsers choose different values."""
    found = [value for key, value in scope["headers"] if key == name]
    return b", ".join(found) if found else None


def _hostname(url: str) -> str | None:
    """Read the host of a URL, without its port; None if it is not a URL, such as the origin `null`."""
    if not set(url).isdisjoint(ODD):
        return None
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None
