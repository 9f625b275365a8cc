"""From files into a collection: replace all, while the queue is paused."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from embedq.app import App
from embedq.cli.files import at_lines, batches, lines, opened
from embedq.cli.importing import Source, Tally, prepared, put_all
from embedq.cli.output import say
from embedq.cli.rejects import Rejects
from embedq.cli.remote import RemoteQueue
from embedq.errors import Invalid
from embedq.policy.texts import MAX_BATCH
from embedq.settings import without_passwords
from embedq.shapes import records as shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """What a replacement did."""

    tally: Tally
    deleted: int
    drained: bool  # leased jobs were finished before

    def shown(self) -> shapes.Replaced:
        """Show it."""
        return shapes.Replaced(**self.tally.facts(), deleted=self.deleted, drained=self.drained)


async def replace_all(app: App, source: Source, drain_timeout: float) -> Replaced:
    """Replace a collection by a file while the queue is paused."""
    async with prepared(app, source, twice=True) as local:
        ids = await _checked_ids(app, local)
        async with _paused_and_drained(app, drain_timeout) as drained:
            tally = await put_all(app, local, Rejects())
            deleted = await _delete_others(app, source.collection, ids)
            return Replaced(tally=tally, deleted=deleted, drained=drained)


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
        raise Invalid(f"the file holds no records: an empty one would delete all of {source.collection!r}")
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


async def _queue(app: App) -> _OwnQueue | RemoteQueue:
    if app.settings.api_base_url is None:
        return _OwnQueue(app)
    remote = RemoteQueue(app.settings)
    if await remote.answers():
        return remote
    address = without_passwords(app.settings.api_base_url)
    say(f"no API answers at {address}: the database is paused directly", shade="yellow", errors=True)
    return _OwnQueue(app)
