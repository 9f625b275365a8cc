"""Commands that find records, and that embed texts."""

from contextlib import suppress
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from embedq.app import App
from embedq.cli.filters import Where, read_conditions
from embedq.cli.options import Collection, Embedder, Json, OfTenant, Url, as_utf8, ask
from embedq.cli.output import console, count, one_line, print_json, share, span, warn
from embedq.cli.tables import Column, table
from embedq.embedding import Purpose, TextVectors
from embedq.errors import EmbedderError, SettingsError
from embedq.model import Answer, EmbedderName, Hit, SearchMode
from embedq.policy.printable import literal
from embedq.shapes.search import Found, Vectors

HITS = (
    Column(name="score", right=True),
    Column(name="id", key=True),
    Column(name="text", least=8),
)
SHOWN_TEXT = 200


def search(  # noqa: PLR0913 one parameter per option
    collection: Collection,
    query: Annotated[str, typer.Argument(help="What to look for.", metavar="QUERY", callback=as_utf8)],
    *,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many hits.")] = 10,
    mode: Annotated[SearchMode, typer.Option("--mode", "-m", help="How to search.")] = SearchMode.AUTO,
    where: Where = None,
    tenant: OfTenant = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Find records by meaning and by words."""
    wanted = read_conditions(where)

    async def find(app: App) -> Answer:
        if mode is not SearchMode.KEYWORD:
            await _warm(app, (await app.client.collection(collection)).space.embedder)
        return await app.client.search(collection, query, k=k, mode=mode, filter=wanted, tenant=tenant)

    answer = ask(url, find)
    if as_json:
        print_json(Found.of(answer))
        return
    if answer.hits:
        screen = console()
        screen.print(_hits(answer, screen.width))
    _footer(answer)


def embed(
    texts: Annotated[list[str], typer.Argument(help="What to embed.", metavar="TEXT", callback=as_utf8)],
    *,
    collection: Annotated[str | None, typer.Option("--collection", "-c", help="As this collection's embedder.")] = None,
    embedder: Embedder = None,
    purpose: Annotated[Purpose, typer.Option("--purpose", help="What the vectors are for.")] = Purpose.QUERY,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Print the vectors of texts, one per line, as SQL with pgvector takes them."""

    async def make(app: App) -> TextVectors:
        name = app.client.embedder(embedder)
        if collection is not None:
            name = (await app.client.collection(collection)).space.embedder
        await _warm(app, name)
        return await app.client.embed(texts, collection=collection, embedder=embedder, purpose=purpose)

    found = ask(url, make)
    if as_json:
        print_json(Vectors.of(found))
        return
    for vector in found.vectors:
        typer.echo(f"[{','.join(map(str, vector))}]")


async def _warm(app: App, embedder: EmbedderName) -> None:
    """Load the model first, so that the query does not time out while it loads."""
    with suppress(EmbedderError, SettingsError):  # the answer says why there is no vector
        await app.warm(embedder)


def _hits(answer: Answer, width: int) -> Table:
    rows = [(f"{hit.score:.3f}", _id(hit), one_line(hit.text)[:SHOWN_TEXT]) for hit in answer.hits]
    return table(HITS, rows, width=width)


def _id(hit: Hit) -> Text:
    return Text.assemble(literal(hit.id), (" stale", "yellow") if hit.stale else "")


def _footer(answer: Answer) -> None:
    fresh = answer.freshness
    found = f"{len(answer.hits):,} found" if answer.hits else "nothing found"
    said = Text.assemble((f"{found}, {answer.mode_used.value}; embedded ", "dim"), share(fresh.coverage))
    if fresh.pending:
        said.append_text(Text.assemble(", ", count(fresh.pending), " pending since ", span(fresh.oldest_pending)))
    console().print(said, soft_wrap=True)
    if answer.reason:
        warn(answer.reason)
    if fresh.trouble:
        warn(f"its table is not followed, so that hits may be stale: {fresh.trouble}")
