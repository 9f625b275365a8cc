"""Assembles the API."""

from collections.abc import Callable, Coroutine
from functools import partial
from traceback import format_tb
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import SecretStr
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect

from embedq import __version__
from embedq.api import problems
from embedq.api.choices import Choices
from embedq.api.guard import OPEN_PATHS, Guard, Keys
from embedq.api.limits import Limits
from embedq.api.paths import RawPaths
from embedq.api.readiness import CachedReadiness
from embedq.api.routes import ROUTERS
from embedq.client import Client
from embedq.errors import EmbedqError, StoreError, StoreUnusable
from embedq.metrics import Metrics
from embedq.operator import Operator
from embedq.settings import Settings
from embedq.telemetry import Event, Telemetry

DESCRIPTION = """embedq keeps vectors in step with data. Write records; the write returns at once; workers embed them in
the background; search finds them by meaning and by words.

Errors are problem documents (RFC 9457) with a stable `type`. Ids in paths are percent-encoded, slashes too.
Lists have a `limit` and a `cursor`. Where keys are set, send `Authorization: Bearer KEY`."""

Handler = Callable[[Request, Any], Coroutine[Any, Any, Response]]


def create_app(
    client: Client, operator: Operator, *, settings: Settings, telemetry: Telemetry, metrics: Metrics
) -> FastAPI:
    """Build the HTTP API over a client and an operator. `metrics` must be one of telemetry's handlers."""
    keys = Keys(api=_plain(settings.api_key), read=_plain(settings.read_key))
    app = FastAPI(
        title="embedq",
        version=__version__,
        description=DESCRIPTION,
        generate_unique_id_function=lambda route: route.name,
        docs_url=None,  # our own page loads nothing from other hosts
        redoc_url=None,
        redirect_slashes=False,  # a path with an empty id is a mistake, not the list
        middleware=[
            Middleware(RawPaths),  # first: the others check the path as it will be routed
            Middleware(Guard, keys=keys, hosts=[settings.host]),
            Middleware(Limits, max_body_bytes=settings.max_request_bytes),
        ],
        exception_handlers=_handlers(telemetry),
    )
    app.state.client, app.state.operator, app.state.metrics = client, operator, metrics
    app.state.readiness = CachedReadiness(operator.health)
    app.state.choices = Choices(client, settings.allowed_embedders)
    for router in ROUTERS:
        app.include_router(router)
    app.openapi = partial(_openapi, app, keyed=bool(keys))  # type: ignore[method-assign]  # FastAPI's own way to extend it
    return app


def _handlers(telemetry: Telemetry) -> dict[int | type[Exception], Handler]:
    async def unexpected(request: Request, error: Exception) -> Response:
        telemetry.emit(
            Event.REQUEST_FAILED,
            level="error",
            method=request.method,
            path=request.scope["path"],
            errorType=type(error).__name__,
            error=str(error),
            stack="".join(format_tb(error.__traceback__)),
        )
        return problems.answer(problems.INTERNAL, "an unexpected error; the server's log says more")

    async def trouble(request: Request, error: Exception) -> Response:
        telemetry.emit(
            Event.STORE_TROUBLE,
            level="critical" if isinstance(error, StoreUnusable) else "error",
            act="request",
            method=request.method,
            path=request.scope["path"],
            error=str(error),
        )
        return await problems.refuse(request, error)

    return {
        StoreError: trouble,
        EmbedqError: problems.refuse,
        RequestValidationError: problems.refuse_input,
        HTTPException: problems.refuse_http,
        ClientDisconnect: _left,
        405: _wrong_method,
        Exception: unexpected,
    }


async def _left(_: Request, __: Exception) -> Response:
    """Send nothing: the client has disconnected, which is not an error of the server."""
    return problems.answer(problems.TIMED_OUT, "the client left before its answer")


async def _wrong_method(request: Request, _: Exception) -> Response:
    """Name all methods of the path: several routes may share it."""
    routes = (route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute))
    path = request.scope["path"]
    allowed = sorted({method for route in routes if route.path_regex.match(path) for method in route.methods or ()})
    detail = f"{request.method} is not for this path: use {', '.join(allowed)}"
    return problems.answer(problems.METHOD, detail, headers={"Allow": ", ".join(allowed)})


def _openapi(app: FastAPI, *, keyed: bool) -> dict[str, Any]:
    """Describe the API, with the shape of problems and, where there are keys, how to send them."""
    if app.openapi_schema is None:
        schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        components = schema.setdefault("components", {})
        components.setdefault("schemas", {})["Problem"] = problems.Problem.model_json_schema()
        if keyed:
            components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
            schema["security"] = [{"key": []}]
            for path in OPEN_PATHS:
                schema["paths"][path]["get"]["security"] = [{}, {"key": []}]
        app.openapi_schema = schema
    return app.openapi_schema


def _plain(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
