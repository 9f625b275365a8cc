"""Options that many commands share, and how a command opens the application."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, TypeVar

import typer

from embedq.app import App, load, start
from embedq.settings import Settings

T = TypeVar("T")


def as_utf8(value: Any) -> Any:  # noqa: ANN401 a word, or a list of words
    """Read what was typed as UTF-8, where the locale has ASCII only, too."""
    if isinstance(value, list):
        return [as_utf8(word) for word in value]
    return os.fsencode(value).decode("utf-8", errors="surrogateescape") if value else value


Url = Annotated[str | None, typer.Option("--url", help="The database. Default: EMBEDQ_URL, or sqlite:///embedq.db.")]
Json = Annotated[bool, typer.Option("--json", help="Print facts as JSON.")]
Collection = Annotated[str, typer.Argument(help="The collection's name.", metavar="COLLECTION", callback=as_utf8)]
InCollection = Annotated[str | None, typer.Option("--collection", "-c", help="Only this collection.")]
OfTenant = Annotated[str | None, typer.Option("--tenant", help="Only this tenant's records.")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="How many at most.")]
Cursor = Annotated[str | None, typer.Option("--cursor", help="Go on where the last list ended.")]
Embedder = Annotated[str | None, typer.Option("--embedder", help="local, or PROVIDER:MODEL. Default: EMBEDQ_EMBEDDER.")]


def ask(
    url: str | None, action: Callable[[App], Awaitable[T]], *, embedder: str | None = None, make: bool = False
) -> T:
    """Open the database, run one action, and close it; a missing database is created only with `make`."""
    return asyncio.run(_ask(load(url=url, embedder=embedder), action, make=make))


async def _ask(settings: Settings, action: Callable[[App], Awaitable[T]], *, make: bool) -> T:
    async with start(settings, quiet=True, make=make) as app:
        return await action(app)
