"""Commands for tables that are already there."""

import asyncio
import csv
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from embedq.app import App, load
from embedq.attachment import Attached
from embedq.cli.options import Collection, Embedder, Json, Url, ask
from embedq.cli.output import console, one_line, print_json, say, warn
from embedq.cli.tables import Cell, Column, table
from embedq.client.tables import ELSEWHERE
from embedq.errors import Invalid, NotFound
from embedq.model import Counts
from embedq.operator.report import counted
from embedq.policy.printable import literal
from embedq.shapes import collections as shapes

Table = Annotated[str, typer.Argument(help="The table: NAME, or SCHEMA.NAME.", metavar="TABLE")]
Key = Annotated[str, typer.Option("--key", help="The key: COLUMN[,COLUMN] of a unique index.")]
Text = Annotated[str, typer.Option("--text", help="What is embedded: COLUMN[,COLUMN…], joined in order.")]
Into = Annotated[str | None, typer.Option("--into", help="A vector column that vectors are copied into.")]
Priority = Annotated[
    str | None, typer.Option("--priority", help="An SQL expression over a row: urgent, high, normal or low.")
]
Tenant = Annotated[str | None, typer.Option("--tenant", help="The column that says whose a row is.")]
Attributes = Annotated[str | None, typer.Option("--attributes", help="COLUMN[,COLUMN…] that searches can filter by.")]
Adopt = Annotated[
    bool, typer.Option("--adopt", help="Take the vectors in the --into column for those of the rows' texts as of now.")
]
Name = Annotated[str | None, typer.Option("--collection", "-c", help="Default: the table's name.")]
NOTHING = Counts()
PAUSE = 0.1  # seconds between polls, while a worker walks the table
TABLES = (
    Column(name="collection", least=10),
    Column(name="table", least=10),
    Column(name="text", least=8, worth=3),
    Column(name="into", worth=2),
    Column(name="state", least=12, wraps=True),
)


def attach(  # noqa: PLR0913 one parameter per option
    name: Table,
    *,
    key: Key,
    text: Text,
    into: Into = None,
    priority: Priority = None,
    tenant: Tenant = None,
    attributes: Attributes = None,
    adopt: Adopt = False,
    collection: Name = None,
    embedder: Embedder = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Make an existing table a collection: its rows are embedded, and every change of them from now on.

    Triggers note keys only; workers do the rest. Run it again to have every row looked at again, to go on where it was
    cut off, or with other options to alter it. Names with commas are written in double quotes. Row security of the
    table does not cover embedq's copy.
    """
    named = _named(key, text, into, tenant, attributes)

    async def work(app: App) -> tuple[Attached, Mapping[str, Counts]]:
        attaching = app.client.tables.attach(name, collection=collection, priority=priority, adopt=adopt, **named)
        return await _watch(app, name, attaching), (await app.operator.status()).counts

    if load(url=url).url.startswith("sqlite:"):
        raise Invalid(ELSEWHERE)  # before a database file is created
    found, counts = ask(url, work, embedder=embedder, make=True)
    if as_json:
        print_json(shapes.Attached.of(found))
    else:
        adopted = found.adopted if adopt else 0
        pending = counts.get(found.collection, NOTHING).pending
        _say_attached(found, max(0, pending - adopted), adopted)  # jobs of adopted vectors end without a call


def detach(collection: Collection, *, url: Url = None, as_json: Json = False) -> None:
    """Leave a table as it was: no triggers, no collection. Vectors in the table's own column stay."""
    ask(url, lambda app: app.client.tables.detach(collection))
    if as_json:
        print_json(shapes.Detached(collection=collection))
    else:
        say(f"{literal(collection)} is detached; its table is as it was")


def attachments(*, url: Url = None, as_json: Json = False) -> None:
    """List the attached tables and how far they are."""

    async def look(app: App) -> tuple[Sequence[Attached], Mapping[str, Counts]]:
        return await app.client.tables.listing(), (await app.operator.status()).counts

    found, counts = ask(url, look)
    if as_json:
        print_json(shapes.AttachedTables.of(found))
    elif not found:
        say("no table is attached: `embedq attach TABLE --key COLUMN --text COLUMN` attaches one", shade="dim")
    else:
        screen = console()
        screen.print(
            table(TABLES, [_row(one, counts.get(one.collection, NOTHING)) for one in found], width=screen.width)
        )
        for one in found:
            _warn_of(one)


def columns(written: str) -> list[str]:
    """Parse a list of column names; one that contains a comma is in double quotes."""
    return [name for name in next(csv.reader([written], skipinitialspace=True), []) if name]


def _named(key: str, text: str, into: str | None, tenant: str | None, attributes: str | None) -> dict[str, Any]:
    """Read the options that name columns."""
    return {
        "key": columns(key),
        "text": columns(text),
        "into": _one("--into", into),
        "tenant": _one("--tenant", tenant),
        "attributes": columns(attributes or ""),
    }


def _one(option: str, written: str | None) -> str | None:
    """Parse the name of one column, with or without double quotes."""
    names = columns(written or "")
    if len(names) > 1:
        raise Invalid(f"{option} takes one column; a name with a comma in it is written in double quotes")
    return names[0] if names else None


async def _watch(app: App, name: str, attaching: Awaitable[Attached]) -> Attached:
    """Wait until a table is attached and walk its rows, with a progress bar."""
    heading = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*heading, console=console(errors=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(f"attaching {literal(name)}, once open transactions on it end", total=None)
        found = await attaching
        bar.update(task, description=f"looking at {literal(found.attachment.table)}", total=found.rows)
        return await _walk(app, found, lambda seen, rows: bar.update(task, completed=seen, total=rows))


async def _walk(app: App, found: Attached, show: Callable[[int, int], None]) -> Attached:
    """Walk all rows. Running workers may do part of it at the same time."""
    try:
        while found.walking and found.problem is None:
            if not await app.client.tables.gather():
                await asyncio.sleep(PAUSE)
            now = {one.collection: one for one in await app.client.tables.listing()}
            if found.collection not in now:
                raise NotFound(f"{found.collection} was detached by somebody else just now")
            found = now[found.collection]
            show(found.seen, max(found.rows, found.seen))
    except asyncio.CancelledError:
        warn("interrupted: the table is attached, and the same command, or any worker, goes on where this stopped")
        raise
    return found


def _say_attached(found: Attached, left: int, adopted: int) -> None:
    seen = f"{counted(found.seen, 'row')} looked at"
    if adopted:
        seen += f", the vectors of {counted(adopted, 'row')} adopted"
    rest = f", {left:,} to embed by workers (`embedq work`)" if left else ""
    say(f"{literal(found.attachment.table)} is the collection {literal(found.collection)}: {seen}{rest}")
    _warn_of(found)


def _row(one: Attached, count: Counts) -> tuple[Cell, ...]:
    if one.problem:
        state = "in trouble"
    elif one.walking:
        state = f"{one.seen:,} of about {one.rows:,} rows looked at"
    elif one.noted:
        state = f"{counted(one.noted, 'changed row')} to look at"
    elif count.missing:
        embedded = (count.records - count.missing) / count.records
        state = f"{embedded:.0%} embedded, {count.pending + count.processing:,} to do"
    else:
        state = "up to date"
    columns_ = ", ".join(one.attachment.text)
    return (one.collection, one.attachment.table, columns_, one.attachment.into or "", state)


def _warn_of(one: Attached) -> None:
    if one.trusts:
        warn(
            f"{one.attachment.table} belongs to {one.trusts}, whose triggers, types and functions on it run with the "
            "rights of embedq's owner when rows are read and vectors copied: attach only whom you trust with them"
        )
    if one.problem:
        warn(f"{one.collection}: {one.problem}")
    if one.row_security:
        warn(
            f"{one.attachment.table} has row security, which does not cover embedq's copy of its rows: whoever may "
            "search or read this collection finds all of them. A tenant narrows a search, but is no right"
        )
    if one.refusals:
        some = "; ".join(f"{one_line(id_)}: {reason}" for id_, reason in list(one.refused.items())[:3])
        warn(f"{counted(one.refusals, 'row')} cannot be embedded: {some}")
