"""Options that many commands share, and how a command meets the application."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from embedq.app import SQLITE, App, sqlite_path, start
from embedq.errors import NotFound
from embedq.settings import Settings, load

T = TypeVar("T")

Url = Annotated[str | None, typer.Option("--url", help="The database. Default: EMBEDQ_URL, or sqlite:///embedq.db.")]
Json = Annotated[bool, typer.Option("--json", help="Print facts as JSON.")]
Collection = Annotated[str, typer.Argument(help="The collection's name.", metavar="COLLECTION")]
InCollection = Annotated[str | None, typer.Option("--collection", "-c", help="Only this collection.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Go on where the last list ended.")]
Embedder = Annotated[
    str | None, typer.Option("--embedder", help="local, openai:MODEL, fake. Default: EMBEDQ_EMBEDDER.")
]


def ask(
    url: str | None, action: Callable[[App], Awaitable[T]], *, embedder: str | None = None, make: bool = False
) -> T:
    """Open the database, do one thing, and close it; a database that is not there is made only if asked for."""
    settings = load(url=url, embedder=embedder)
    if not make:
        check_database(settings)
    return asyncio.run(_ask(settings, action))


def check_database(settings: Settings) -> None:
    """Refuse to read a database that is not there: a wrong path must not answer with an empty queue."""
    if settings.url.startswith(SQLITE) and not sqlite_path(settings.url).exists():
        raise NotFound(f"no database at {settings.url}: `embedq up` or `embedq init` makes one, --url names another")


async def _ask(settings: Settings, action: Callable[[App], Awaitable[T]]) -> T:
    async with start(settings, quiet=True) as app:
        return await action(app)
