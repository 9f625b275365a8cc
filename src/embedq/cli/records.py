"""Commands about records: get, list, delete, export."""

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.text import Text

from embedq.app import App
from embedq.cli.exporting import Wanted, export_all
from embedq.cli.files import batches, opened
from embedq.cli.filters import Where, read_conditions
from embedq.cli.options import Collection, Cursor, Json, Limit, OfTenant, Url, as_utf8, ask
from embedq.cli.output import console, more, nothing, one_line, print_json, say, shaded, since
from embedq.cli.tables import Cell, Column, table
from embedq.errors import Invalid
from embedq.model import EmbeddingStatus, Record
from embedq.operator.report import counted
from embedq.policy.printable import literal
from embedq.shapes import records as shapes

Id = Annotated[str, typer.Argument(help="The record's id.", metavar="ID", callback=as_utf8)]
Ids = Annotated[
    list[str] | None,
    typer.Argument(help="The records' ids; `-` reads them from stdin.", metavar="ID", callback=as_utf8),
]
IdFile = Annotated[str | None, typer.Option("--from", help="A file with one id per line; `-` reads stdin.")]
OfStatus = Annotated[
    EmbeddingStatus | None, typer.Option("--status", "-s", help="Only records whose embedding stands so.")
]
RECORDS = (
    Column(name="id", key=True),
    Column(name="status"),
    Column(name="tenant", least=8, worth=1, if_any=True),
    Column(name="changed", worth=2),
    Column(name="text", least=8),
    Column(name="attributes", least=12, worth=3, if_any=True),
)
SHOWN_TEXT = 200
SHOWN_NUMBERS = 4


def get(
    collection: Collection,
    id: Id,  # noqa: A002 the command's own word
    *,
    vector: Annotated[bool, typer.Option("--vector", help="Show its vector too.")] = False,
    tenant: OfTenant = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Read one record and how its embedding stands."""
    found = ask(url, lambda app: app.client.get(collection, id, with_vector=vector, tenant=tenant))
    if as_json:
        print_json((shapes.RecordWithVector if vector else shapes.Record).of(found))
        return
    for name, value in _facts(found, vector=vector):
        console().print(Text.assemble((f"{name:<11} ", "dim"), value), soft_wrap=True)
    console().print(f"\n{literal(found.text)}", soft_wrap=True)


def list_(  # noqa: PLR0913 one parameter per option
    collection: Collection,
    *,
    state: OfStatus = None,
    where: Where = None,
    tenant: OfTenant = None,
    limit: Limit = 20,
    cursor: Cursor = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """List records."""
    wanted = read_conditions(where)
    page = ask(
        url,
        lambda app: app.client.records(
            collection, status=state, filter=wanted, tenant=tenant, limit=limit, cursor=cursor
        ),
    )
    if as_json:
        print_json(shapes.RecordPage.of(page))
    elif not page.items:
        say("no records", shade="dim")
    else:
        screen = console()
        screen.print(table(RECORDS, [_row(record) for record in page.items], width=screen.width))
        more(page.next_cursor)


def delete(  # noqa: PLR0913 one parameter per option
    collection: Collection,
    ids: Ids = None,
    *,
    source: IdFile = None,
    where: Where = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete all that --filter allows.")] = False,
    purge: Annotated[bool, typer.Option("--purge", help="Erase text and vector too, for good.")] = False,
    tenant: OfTenant = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Take records out of search and cancel their jobs. Ids that do not exist are named, and are no error."""
    source = "-" if ids == ["-"] else source
    if sum(map(bool, (source, ids and ids != ["-"], where))) != 1:
        raise typer.BadParameter("name the records, or a file with one id per line: --from FILE, or a --filter")
    if where:
        by_filter = _read_where(where, yes=yes)
        deleted = ask(url, lambda app: app.client.delete_where(collection, by_filter, purge=purge, tenant=tenant))
        done_by = shapes.DeletedBy(deleted=deleted, purged=purge)
        print_json(done_by) if as_json else _say_how_many(collection, deleted, purged=purge)
        return
    wanted = _lines(source) if source else iter(ids or ())
    done = ask(url, lambda app: _delete(app, collection, wanted, purge=purge, tenant=tenant))
    print_json(done) if as_json else _say_deleted(collection, done)


def export(
    collection: Collection,
    file: Annotated[str, typer.Argument(help="Where to; `-` or none is stdout.", metavar="FILE")] = "-",
    *,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="Add each vector and its space, which `put` leaves out again.")
    ] = False,
    tenant: OfTenant = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Write a collection as JSON lines that `put` and `import` take back unchanged.

    FILE appears when it is complete, readable by its owner only. Records that change meanwhile are written as they were
    when they were read.
    """
    if as_json and file == "-":
        raise typer.BadParameter(
            "the records are on stdout: name a FILE, and the facts are printed", param_hint="--json"
        )
    wanted = Wanted(collection=collection, vectors=vectors, tenant=tenant)
    records = ask(url, lambda app: export_all(app, wanted, file))
    if as_json:
        print_json(shapes.Exported(collection=collection, records=records, file=file))
    else:
        where = "" if file == "-" else f" in {file}"
        say(f"{counted(records, 'record')} of {collection}{where}", errors=file == "-")


async def _delete(
    app: App,
    collection: str,
    ids: Iterator[str],
    *,
    purge: bool,
    tenant: str | None,
) -> shapes.DeletedMany:
    deleted: list[str] = []
    absent: list[str] = []
    for batch in batches(ids):
        gone = set(await app.client.delete(collection, batch, purge=purge, tenant=tenant))
        for id_ in dict.fromkeys(batch):
            (deleted if id_ in gone else absent).append(id_)
    return shapes.DeletedMany(deleted=deleted, absent=absent, purged=purge)


def _read_where(where: Sequence[str], *, yes: bool) -> dict[str, Any]:
    wanted = read_conditions(where)
    if not yes:
        raise typer.BadParameter(
            "it deletes all that it allows: look with `list`, then add --yes", param_hint="--filter"
        )
    return wanted


def _lines(path: str) -> Iterator[str]:
    with opened(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                id_ = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise Invalid(f"line {number}: no valid UTF-8 (byte {error.start})") from error
            if id_:
                yield id_


def _say_deleted(collection: str, done: shapes.DeletedMany) -> None:
    _say_how_many(collection, len(done.deleted), purged=done.purged)
    if done.absent:
        some = ", ".join(done.absent[:5]) + (", …" if len(done.absent) > 5 else "")  # noqa: PLR2004 a line full
        say(f"{counted(len(done.absent), 'id')} did not exist: {some}", shade="yellow")


def _say_how_many(collection: str, deleted: int, *, purged: bool) -> None:
    say(f"{counted(deleted, 'record')} {'purged' if purged else 'deleted'} from {collection}")


def _facts(record: Record, *, vector: bool) -> Sequence[tuple[str, Text]]:
    facts = [
        ("id", Text(literal(record.id))),
        ("collection", Text(literal(record.collection))),
        ("status", shaded(record.embedding_status)),
        ("created", since(record.created_at)),
        ("changed", since(record.updated_at)),
    ]
    if record.reason:
        facts.insert(3, ("reason", Text(record.reason)))
    if record.job_id:
        facts.append(("job", Text(record.job_id)))
    if record.tenant is not None:
        facts.append(("tenant", Text(literal(record.tenant))))
    if record.attributes:
        facts.append(("attributes", Text(_json(record))))
    if vector:
        facts.append(("vector", nothing() if record.vector is None else _vector(record.vector.tolist())))
    if record.truncated:
        facts.append(("truncated", Text("its vector covers the beginning of the text only", "yellow")))
    return facts


def _vector(numbers: Sequence[float]) -> Text:
    first = ", ".join(f"{number:.4f}" for number in numbers[:SHOWN_NUMBERS])
    return Text(f"{counted(len(numbers), 'number')}: {first}, … (all with --json)")


def _json(record: Record) -> str:
    return literal(json.dumps(record.attributes, ensure_ascii=False))


def _row(record: Record) -> tuple[Cell, ...]:
    return (
        record.id,
        shaded(record.embedding_status),
        nothing() if record.tenant is None else record.tenant,
        since(record.updated_at),
        one_line(record.text)[:SHOWN_TEXT],
        _json(record)[:SHOWN_TEXT] if record.attributes else nothing(),
    )
