"""Puts the application together: one database, one pool for its own table, one embedq."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import asyncpg
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles

import embedq
from embedq.api.routes import docs
from embedq.errors import Conflict, EmbedqError, Invalid, NotFound, TooLarge

from . import admin, routes
from .directory import RETRY, Directory

STATUSES: dict[type[EmbedqError], int] = {NotFound: 404, Conflict: 409, TooLarge: 413, Invalid: 422}
TROUBLE = (EmbedqError, asyncpg.PostgresError, asyncpg.InterfaceError, OSError)  # the last: nobody answers
LATER = 503  # whatever else goes wrong is ours, and may go better later


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the environment says."""

    url: str
    workers: int
    retry_base_seconds: float = RETRY["base_seconds"]


def create(options: Options) -> FastAPI:
    """Build the application; the database is opened when it starts."""

    @asynccontextmanager
    async def opened(app: FastAPI) -> AsyncIterator[None]:
        async with (
            embedq.open(options.url, workers=options.workers) as eq,
            asyncpg.create_pool(options.url, min_size=1) as pool,
        ):
            directory = Directory(pool, eq)
            await directory.prepare({**RETRY, "base_seconds": options.retry_base_seconds})
            app.state.eq, app.state.directory = eq, directory
            yield

    app = FastAPI(title="A business directory", lifespan=opened, docs_url=None, redoc_url=None)
    app.add_api_route("/docs", docs.page, include_in_schema=False)  # embedq's page: nothing in it is from the internet
    app.mount("/docs", StaticFiles(directory=docs.STATIC))
    for kind in TROUBLE:
        app.add_exception_handler(kind, _refuse)
    app.include_router(routes.router)
    app.include_router(admin.router)
    app.add_api_route("/health", _health, include_in_schema=False)
    return app


async def _health() -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "ok"}


async def _refuse(_: Request, error: Exception) -> JSONResponse:
    """Say what went wrong; nothing was written."""
    status = next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), LATER)
    return JSONResponse({"detail": str(error)}, status_code=status)
