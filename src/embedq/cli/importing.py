"""From files into a collection: put all, or replace all."""

import json
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from embedq.app import App
from embedq.cli.files import Layout, Line, at_lines, batches, lines, opened
from embedq.cli.output import console, say
from embedq.cli.remote import RemoteQueue
from embedq.client.intake import fits
from embedq.errors import Invalid
from embedq.model import EmbeddingStatus, Receipt
from embedq.operator.report import counted
from embedq.policy.texts import MAX_BATCH
from embedq.settings import without_passwords
from embedq.shapes.records import Replaced, Written


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
    deleted: int = 0
    drained: bool = True

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

    def written(self) -> Written:
        """Show what a put wrote."""
        return Written(records=self.records, queued=self.queued, unchanged=self.unchanged)

    def replaced(self) -> Replaced:
        """Show what a replacement did."""
        return Replaced(**dict(self.written()), deleted=self.deleted, drained=self.drained)


async def put_all(app: App, source: Source) -> Tally:
    """Write a file batch by batch; a bad line ends it, and nothing of its batch is stored."""
    tally = Tally()
    with opened(source.path) as file, _progress(source.path) as moved:
        found = lines(file, source.layout)
        try:
            for batch in batches(found):
                tally.add(await _put(app, source.collection, batch))
                moved(file.tell() if file.seekable() else 0)
        except Invalid as problem:
            raise Invalid(f"{problem}\n{_stored(tally.records)}") from problem
    return tally


async def replace_all(app: App, source: Source, drain_timeout: float) -> Tally:
    """Replace a collection by a file while the queue is paused."""
    with _spooled(source) as local:
        ids = await _checked_ids(app, local)
        async with _paused_and_drained(app, drain_timeout) as drained:
            tally = await put_all(app, local)
            tally.deleted = await _delete_others(app, source.collection, ids)
            tally.drained = drained
            return tally


def read_filter(pairs: Sequence[str]) -> dict[str, Any]:
    """Read `attribute=value`; several of one attribute mean any of them."""
    found: dict[str, list[Any]] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"{pair!r}: write attribute=value", param_hint="--filter")
        found.setdefault(name, []).extend(_readings(value))
    return found


def _readings(text: str) -> list[Any]:
    """List the possible types of a value: `1843` may mean the number or the text."""
    try:
        value = json.loads(text)
    except ValueError:
        return [text]
    return [text, value] if isinstance(value, bool | int | float) and fits(value) else [text]


async def _put(app: App, collection: str, batch: list[Line]) -> Sequence[Receipt]:
    try:
        return await app.client.put(collection, [line.record for line in batch])
    except Invalid as problem:
        raise at_lines(problem, batch) from problem


def _stored(records: int) -> str:
    if not records:
        return "Nothing was stored: mend the file and put it again."
    return f"Stored before this batch: {counted(records, 'record')}. Mend the file and put it again."


async def _checked_ids(app: App, source: Source) -> set[str]:
    """Read the whole file before anything is changed: a replacement must not stop half-way at a bad line."""
    ids: set[str] = set()
    with opened(source.path) as file:
        for batch in batches(lines(file, source.layout)):
            try:
                checked = await app.client.check(source.collection, [line.record for line in batch])
            except Invalid as problem:
                raise Invalid(f"{at_lines(problem, batch)}\nNothing was touched: mend the file.") from problem
            ids.update(record.id for record in checked)
    if not ids:
        raise Invalid(f"{source.path} holds no records: an empty file would delete all of {source.collection!r}")
    return ids


async def _delete_others(app: App, collection: str, keep: set[str]) -> int:
    deleted, cursor = 0, None
    while True:
        page = await app.client.records(collection, limit=MAX_BATCH, cursor=cursor)
        others = [record.id for record in page.items if record.id not in keep]
        if others:
            deleted += len(await app.client.delete(collection, others))
        cursor = page.next_cursor
        if cursor is None:
            return deleted


@asynccontextmanager
async def _paused_and_drained(app: App, seconds: float) -> AsyncIterator[bool]:
    """Pause and drain; resume in any case, unless the queue was paused before."""
    queue = await _queue(app)
    before = await queue.paused()
    await queue.pause()
    try:
        yield await queue.drain(seconds)
    finally:
        if not before:
            await queue.resume()


class _OwnQueue:
    """The queue in our own database; a pause applies to every process that uses it."""

    def __init__(self, app: App) -> None:
        self._operator = app.operator
        self.paused, self.pause, self.resume = app.store.paused, app.operator.pause, app.operator.resume

    async def drain(self, seconds: float) -> bool:
        return (await self._operator.drain(seconds)).status == "drained"


async def _queue(app: App) -> "_OwnQueue | RemoteQueue":
    if app.settings.api_base_url is None:
        return _OwnQueue(app)
    remote = RemoteQueue(app.settings)
    if await remote.answers():
        return remote
    address = without_passwords(app.settings.api_base_url)
    say(f"no API answers at {address}: the database is paused directly", shade="yellow", errors=True)
    return _OwnQueue(app)


@contextmanager
def _spooled(source: Source) -> Iterator[Source]:
    """Keep stdin in a file, since it is read twice."""
    if source.path != "-":
        yield source
        return
    with tempfile.TemporaryDirectory(prefix="embedq-") as folder:
        path = Path(folder) / "stdin"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield replace(source, path=str(path))


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
