"""A collection as JSON lines, page by page."""

import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from embedq.app import App
from embedq.cli.layout import EMBEDDING
from embedq.cli.outfiles import refuse_database, replacing
from embedq.cli.output import console
from embedq.errors import Invalid
from embedq.model import Collection, EmbeddingStatus, Record
from embedq.policy.printable import literal, safe_json
from embedq.policy.texts import MAX_BATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is exported."""

    collection: str
    vectors: bool
    tenant: str | None


async def export_all(app: App, wanted: Wanted, path: str) -> int:
    """Write the records to a file, or to stdout for `-`; return how many."""
    refuse_database(path)
    found = await app.client.collection(wanted.collection)
    total = (await app.store.counts())[wanted.collection].records if wanted.tenant is None else None
    written = 0
    with _output(path) as file, _progress(wanted.collection, total) as done:
        async for page in _pages(app, wanted):
            for record in page:
                file.write(_line(record, found, vectors=wanted.vectors))
            written += len(page)
            done(written)
    return written


async def _pages(app: App, wanted: Wanted) -> AsyncIterator[Sequence[Record]]:
    cursor = None
    while True:
        page = await app.client.records(wanted.collection, tenant=wanted.tenant, limit=MAX_BATCH, cursor=cursor)
        yield await _with_vectors(app, wanted, page.items) if wanted.vectors else page.items
        cursor = page.next_cursor
        if cursor is None:
            return


async def _with_vectors(app: App, wanted: Wanted, page: Sequence[Record]) -> Sequence[Record]:
    """Read the records of a page again with their vectors: text and vector must be of one moment."""
    return await app.store.get(wanted.collection, [record.id for record in page], with_vectors=True)


def _line(record: Record, collection: Collection, *, vectors: bool) -> bytes:
    """Write a record with the fields that `put` takes; one that is made from attributes has no text of its own."""
    fields: dict[str, Any] = {"id": record.id}
    if collection.declaration.text_from is None:
        fields["text"] = record.text
    if record.attributes:
        fields["attributes"] = record.attributes
    if record.tenant is not None:
        fields["tenant"] = record.tenant
    if vectors:
        vector = record.vector if record.embedding_status is EmbeddingStatus.EMBEDDED else None
        numbers = None if vector is None else vector.tolist()
        fields[EMBEDDING] = {"space": str(collection.space), "vector": numbers}
    return safe_json(json.dumps(fields, ensure_ascii=False)).encode() + b"\n"


@contextmanager
def _output(path: str) -> Iterator[IO[bytes]]:
    """Open stdout, or a file that takes its name when all is written; a killed export leaves the old one as it was."""
    target = Path(path)
    try:
        if path == "-":
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        if target.exists() and not target.is_file():  # a pipe or a device has no name to take
            with target.open("wb") as file:
                yield file
            return
        with replacing(target.resolve()) as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Invalid(f"{'stdout' if path == '-' else path} cannot be written: {error.strerror}") from error


@contextmanager
def _progress(collection: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show how many records are written, on a terminal only."""
    heading = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*heading, console=console(errors=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(f"exporting {literal(collection)}", total=total)
        yield lambda written: bar.update(task, completed=written)
