"""Commands that write records and find them."""

from contextlib import suppress
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from embedq.app import App
from embedq.cli import importing
from embedq.cli.files import layout_of
from embedq.cli.importing import Source
from embedq.cli.options import Collection, Embedder, Json, OfTenant, Url, ask
from embedq.cli.output import console, count, lane, literal, one_line, print_json, say, share, span, warn
from embedq.cli.tables import Column, table
from embedq.embedding import Purpose, TextVectors
from embedq.errors import EmbedderError, SettingsError
from embedq.model import Answer, EmbedderName, Hit, Page, SearchMode
from embedq.operator.report import counted
from embedq.shapes.collections import Collections
from embedq.shapes.search import Found, Vectors

File = Annotated[str, typer.Argument(help="JSON lines or CSV; `-` reads stdin.", metavar="FILE")]
IdColumn = Annotated[str | None, typer.Option("--id-column", help="The column or key that holds the id. Default: id.")]
TextColumn = Annotated[
    str | None, typer.Option("--text-column", help="The column or key that holds the text. Default: text.")
]
Format = Annotated[
    str | None, typer.Option("--format", help="jsonl, csv or tsv. Default: by the file's name, stdin is jsonl.")
]
HITS = (
    Column(name="score", right=True),
    Column(name="id", key=True),
    Column(name="text", least=8),
)
COLLECTIONS = (
    Column(name="collection", key=True),
    Column(name="space", least=10),
    Column(name="text from", least=10, worth=3),
    Column(name="priority", worth=2),
    Column(name="attempts", right=True, worth=1),
)
SHOWN_TEXT = 200


def put(
    collection: Collection,
    file: File,
    *,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    form: Format = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Write records from a file. A batch with a bad line is refused whole, and the line is named."""
    source = _source(collection, file, id_column, text_column, form)
    tally = ask(url, lambda app: importing.put_all(app, source), make=True)
    if as_json:
        print_json(tally.written())
    else:
        say(f"{counted(tally.records, 'record')} into {collection}: {tally.words}")


def import_(  # noqa: PLR0913 one parameter per option
    collection: Collection,
    file: File,
    *,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    form: Format = None,
    drain_timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for leased jobs.")] = 300,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Replace a collection by a file: pause, drain, put all, delete the others, resume.

    The pause lives in the database, so it holds for every process. The queue resumes even if the import fails; if it
    was paused before, it stays so.
    """
    source = _source(collection, file, id_column, text_column, form)
    tally = ask(url, lambda app: importing.replace_all(app, source, drain_timeout), make=True)
    if as_json:
        print_json(tally.replaced())
        return
    held = f"{collection} now holds what is in the file, {counted(tally.records, 'record')}"
    say(f"{held}: {tally.words}, {tally.deleted:,} deleted")
    if not tally.drained:
        say("leased jobs were not finished in time; their late results change nothing", shade="yellow")


def search(  # noqa: PLR0913 the same
    collection: Collection,
    query: Annotated[str, typer.Argument(help="What to look for.", metavar="QUERY")],
    *,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="How many hits.")] = 10,
    mode: Annotated[SearchMode, typer.Option("--mode", "-m", help="How to search.")] = SearchMode.AUTO,
    where: Annotated[
        list[str] | None, typer.Option("--filter", "-f", help="attribute=value; repeat it for more.")
    ] = None,
    tenant: OfTenant = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Find records by meaning and by words."""
    wanted = importing.read_filter(where or [])

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
    texts: Annotated[list[str], typer.Argument(help="What to embed.", metavar="TEXT...")],
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


def collections(*, url: Url = None, as_json: Json = False) -> None:
    """List the collections."""
    found = ask(url, lambda app: app.client.collections())
    if as_json:
        print_json(Collections.of(Page(found)))  # it is all of them
    elif not found:
        say("no collections yet: `embedq put COLLECTION FILE` makes the first", shade="dim")
    else:
        rows = [
            (
                one.declaration.name,
                str(one.space),
                ", ".join(one.declaration.text_from or ("text",)),
                lane(one.declaration.priority),
                str(one.declaration.retry.max_attempts),
            )
            for one in found
        ]
        screen = console()
        screen.print(table(COLLECTIONS, rows, width=screen.width))


async def _warm(app: App, embedder: EmbedderName) -> None:
    """Load the model first, so that the query does not time out while it loads."""
    with suppress(EmbedderError, SettingsError):  # the answer says why there is no vector
        await app.warm(embedder)


def _source(collection: str, file: str, id_column: str | None, text_column: str | None, form: str | None) -> Source:
    if form not in {None, "jsonl", "csv", "tsv"}:
        raise typer.BadParameter("write jsonl, csv or tsv", param_hint="--format")
    layout = layout_of(file, id_column=id_column, text_column=text_column, form=form)
    return Source(collection=collection, path=file, layout=layout)


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
