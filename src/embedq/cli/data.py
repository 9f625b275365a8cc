"""Commands that write the records of a file."""

from pathlib import Path
from typing import Annotated

import typer

from embedq.app import App
from embedq.cli.attach import columns
from embedq.cli.columns import Kind
from embedq.cli.importing import Source, Tally, prepared, put_all
from embedq.cli.layout import SEPARATORS, layout_of
from embedq.cli.options import Collection, Json, Url, ask
from embedq.cli.output import print_json, say
from embedq.cli.rejects import Rejects
from embedq.cli.replacing import replace_all
from embedq.operator.report import counted
from embedq.operator.watching import START_ONE

File = Annotated[str, typer.Argument(help="JSON lines or CSV; `-` reads stdin.", metavar="FILE")]
IdColumn = Annotated[str | None, typer.Option("--id-column", help="The column or key that holds the id. Default: id.")]
TextColumn = Annotated[
    str | None,
    typer.Option(
        "--text-column",
        help="The column or key that holds the text. Default: text, unless the collection makes texts from attributes.",
    ),
]
Types = Annotated[
    str | None,
    typer.Option("--types", help="CSV columns that are not what they look like: NAME=text, number or boolean."),
]
Format = Annotated[
    str | None, typer.Option("--format", help="jsonl, csv or tsv. Default: by the file's name, stdin is jsonl.")
]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Leave bad lines out, and keep them in the rejects file.")]
RejectsFile = Annotated[
    str | None, typer.Option("--rejects", help="Where --skip-bad keeps bad lines. Default: FILE.rejects.jsonl.")
]


def put(  # noqa: PLR0913 one parameter per option
    collection: Collection,
    file: File,
    *,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    types: Types = None,
    form: Format = None,
    skip_bad: SkipBad = False,
    rejects: RejectsFile = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Write records from a file.

    The fields id, text, attributes, priority and tenant are a record's own; all others become attributes. A batch with
    a bad line is refused whole and the line is named, unless bad lines are left out.
    """
    source = _source(collection, file, form, types, id_column=id_column, text_column=text_column)
    kept = _rejects(file, rejects) if skip_bad or rejects else None
    with Rejects(kept) as refused:
        tally = ask(url, lambda app: _put(app, source, refused), make=True)
    if as_json:
        print_json(tally.shown(refused))
        return
    say(f"{counted(tally.records, 'record')} into {collection}: {tally.words}")
    if refused.count:
        say(f"{counted(refused.count, 'bad line')} left out, see {refused.written}", shade="yellow", errors=True)
    _say_idle(tally)


def import_(  # noqa: PLR0913 one parameter per option
    collection: Collection,
    file: File,
    *,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    types: Types = None,
    form: Format = None,
    drain_timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for leased jobs.")] = 300,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Replace a collection by a file: pause, drain, put all, delete the others, resume.

    The pause lives in the database, so it holds for every process. The queue resumes even if the import fails; if it
    was paused before, it stays so.
    """
    source = _source(collection, file, form, types, id_column=id_column, text_column=text_column)
    done = ask(url, lambda app: replace_all(app, source, drain_timeout), make=True)
    if as_json:
        print_json(done.shown())
        return
    held = f"{collection} now holds what is in the file, {counted(done.tally.records, 'record')}"
    say(f"{held}: {done.tally.words}, {done.deleted:,} deleted")
    if not done.drained:
        say("leased jobs were not finished in time; their late results change nothing", shade="yellow")
    _say_idle(done.tally)


async def _put(app: App, source: Source, rejects: Rejects) -> Tally:
    async with prepared(app, source) as local:
        return await put_all(app, local, rejects)


def _say_idle(tally: Tally) -> None:
    """Say it if nobody will embed what was written."""
    if tally.queued and not tally.workers:
        say(f"written; no worker runs: {START_ONE}", shade="yellow", errors=True)


def _source(
    collection: str, file: str, form: str | None, types: str | None, *, id_column: str | None, text_column: str | None
) -> Source:
    if form not in {None, *SEPARATORS}:
        raise typer.BadParameter("write jsonl, csv or tsv", param_hint="--format")
    named = dict(_type(pair) for pair in columns(types or ""))
    layout = layout_of(file, form=form, id_column=id_column, text_column=text_column, types=named)
    if named and layout.separator is None:
        raise typer.BadParameter("only CSV needs types: JSON lines say theirs", param_hint="--types")
    return Source(collection=collection, path=file, layout=layout)


def _type(pair: str) -> tuple[str, Kind]:
    name, _, kind = pair.rpartition("=")
    if not name or kind not in set(Kind):
        raise typer.BadParameter(f"{pair!r}: write NAME=text, NAME=number or NAME=boolean", param_hint="--types")
    return name, Kind(kind)


def _rejects(file: str, named: str | None) -> str:
    if named and Path(named).exists() and Path(file).exists() and Path(named).samefile(file):
        raise typer.BadParameter("name another file than the one that is read", param_hint="--rejects")
    return named or f"{'stdin' if file == '-' else file}.rejects.jsonl"
