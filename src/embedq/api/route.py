"""Routes that accept exactly what they declare."""

from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.exceptions import HTTPException

from embedq.errors import Invalid

Handle = Callable[[Request], Coroutine[Any, Any, Response]]
JSON_HEADER = (b"content-type", b"application/json")


class JsonRequest(Request):
    """A request whose body is strict JSON: UTF-8, no NaN, no lone surrogates, bounded depth."""

    async def json(self) -> Any:  # noqa: ANN401 the base class's signature
        """Read the body."""
        try:
            return from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise HTTPException(400, f"the body is no valid JSON: {error}") from error


class StrictRoute(APIRoute):
    """Refuses unknown and repeated query parameters, and bodies that are not JSON; times each request."""

    def get_route_handler(self) -> Handle:
        """Wrap the usual handler."""
        handle = super().get_route_handler()
        known = frozenset(parameter.alias for parameter in self.dependant.query_params)
        takes_body = self.body_field is not None
        route = self.path_format

        async def strict(request: Request) -> Response:
            _refuse_odd(request, known)
            started = perf_counter()
            try:
                return await handle(await _json_request(request) if takes_body else request)
            finally:
                request.app.state.metrics.requested(request.method, route, perf_counter() - started)

        return strict


def _refuse_odd(request: Request, known: frozenset[str]) -> None:
    if not request.scope["query_string"]:
        return
    if unknown := sorted(set(request.query_params) - known):
        has = f"it has {', '.join(sorted(known))}" if known else "it has none"
        raise Invalid(f"this route has no query parameter {unknown[0][:64]!r}: {has}")
    names = [name for name, _ in request.query_params.multi_items()]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise Invalid(f"the query parameter {repeated[0]!r} is given more than once: only one would count")


async def _json_request(request: Request) -> JsonRequest:
    """Read a body without a Content-Type as JSON, and refuse any other type."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    scope = request.scope if kind else {**request.scope, "headers": [*request.scope["headers"], JSON_HEADER]}
    asked = JsonRequest(scope, request.receive)
    is_json = not kind or kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))
    if not is_json and await asked.body():
        raise HTTPException(415, f"the body is declared as {kind[:64]}: send `Content-Type: application/json`")
    return asked
