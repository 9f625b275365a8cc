"""From files into a collection: put all."""

import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from embedq.app import App
from embedq.cli.csvfiles import with_types
from embedq.cli.files import BadLine, Line, at_lines, batches, entries, opened
from embedq.cli.layout import Layout
from embedq.cli.output import console
from embedq.cli.rejects import Rejects
from embedq.errors import Conflict, Invalid
from embedq.model import EmbeddingStatus, Receipt
from embedq.operator.report import counted
from embedq.shapes import records as shapes

NO_TEXT = "nothing to embed: `text`"  # how the client says it
NAME_IT = (
    "Is the text in another field? Name it with --text-column, or first `embedq declare` which make it: --text-from."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file and the collection it goes to."""

    collection: str
    path: str
    layout: Layout


@dataclass(slots=True, kw_only=True)
class Tally:
    """The result of importing a file."""

    records: int = 0
    queued: int = 0  # those that wait for a vector, queued by this put or an earlier one
    unchanged: int = 0
    workers: int = 0  # alive, when all was written

    def add(self, receipts: Sequence[Receipt]) -> None:
        """Count what was written."""
        self.records += len(receipts)
        unchanged = sum(receipt.embedding_status is not EmbeddingStatus.PENDING for receipt in receipts)
        self.unchanged += unchanged
        self.queued += len(receipts) - unchanged

    @property
    def words(self) -> str:
        """Summarise it: a text that was already queued is to be embedded, but was not changed by this put."""
        return f"{self.queued:,} to embed, {self.unchanged:,} with nothing to do"

    def facts(self) -> dict[str, int]:
        """List what every shape of it has."""
        return {name: getattr(self, name) for name in ("records", "queued", "unchanged", "workers")}

    def shown(self, rejects: Rejects) -> shapes.Put:
        """Show what a put wrote."""
        return shapes.Put(**self.facts(), rejected=rejects.count, rejects=rejects.written)


@asynccontextmanager
async def prepared(app: App, source: Source, *, twice: bool = False) -> AsyncIterator[Source]:
    """Learn from the collection where texts come from, and from a CSV file its columns' types."""
    declared = {one.declaration.name: one.declaration for one in await app.client.collections()}
    text_from = declared[source.collection].text_from if source.collection in declared else None
    layout = replace(source.layout, own_text=text_from is None)
    with _spooled(source.path) if twice or layout.separator else nullcontext(source.path) as path:
        if layout.separator:
            with opened(path) as file:
                layout = with_types(file, layout)
        yield replace(source, path=path, layout=layout)


async def put_all(app: App, source: Source, rejects: Rejects) -> Tally:
    """Write a file batch by batch; a bad line ends it, and nothing of its batch is stored, unless rejects are kept."""
    tally = Tally()
    with opened(source.path) as file, _progress(source.path) as moved:
        try:
            for batch in batches(entries(file, source.layout)):
                tally.add(await _put(app, source.collection, batch, rejects))
                moved(file.tell() if file.seekable() else 0)
        except Invalid as problem:
            raise Invalid(f"{problem}\n{_advice(str(problem), tally.records)}") from problem
    tally.workers = sum(worker.alive for worker in await app.operator.workers())
    return tally


async def _put(app: App, collection: str, batch: Sequence[Line | BadLine], rejects: Rejects) -> Sequence[Receipt]:
    """Write the good lines of a batch; those that are refused are rejects, and the others are tried again."""
    good = rejects.sift(batch)
    while good:
        try:
            return await app.client.put(collection, [line.record for line in good])
        except Invalid as problem:
            if not rejects.skipping or not problem.problems:
                raise at_lines(problem, good) from problem
            good = rejects.refuse(good, problem.problems)
        except Conflict as problem:
            anothers = [at for at, line in enumerate(good) if line.record["id"] in problem.records]
            if not rejects.skipping or not anothers:
                raise
            good = rejects.refuse(good, dict.fromkeys(anothers, "the id belongs to another tenant"))
    return []


def _advice(problem: str, records: int) -> str:
    said = [NAME_IT] if NO_TEXT in problem else []
    if records:
        said.append(f"Stored before this batch: {counted(records, 'record')}.")
    else:
        said.append("Nothing was stored.")
    said.append("Mend the file and put it again, which embeds nothing twice; or leave bad lines out with --skip-bad.")
    return " ".join(said)


@contextmanager
def _spooled(path: str) -> Iterator[str]:
    """Keep a stream, such as stdin, in a file, since it is read twice."""
    if path != "-" and Path(path).is_file():
        yield path
        return
    with opened(path) as stream, tempfile.TemporaryDirectory(prefix="embedq-") as folder:
        copy = Path(folder) / "stream"
        with copy.open("wb") as file:
            shutil.copyfileobj(stream, file)
        yield str(copy)


@contextmanager
def _progress(path: str) -> Iterator[Any]:
    """Show how much of a file is read, on a terminal only."""
    size = Path(path).stat().st_size if path != "-" and Path(path).is_file() else None
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console(errors=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("putting", total=size)
        yield lambda position: bar.update(task, completed=position)
