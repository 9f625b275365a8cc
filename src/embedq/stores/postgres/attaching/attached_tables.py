"""The part of the store that follows attached tables."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from time import monotonic

from embedq.attachment import Attached, Attachment
from embedq.errors import NotFound, StoreError
from embedq.model import Declaration
from embedq.policy.texts import Limits
from embedq.stores.postgres.attaching import attaching, listing, shape_changes
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.rights import owner
from embedq.telemetry import Event

CHECK_SECONDS = 30.0  # between two checks for tables whose columns or partitions changed
SOON = 2.0  # and after a check that failed
POLL = timedelta(seconds=0.5)  # how often an idle worker checks for changes without a notification


class PostgresAttaching:
    """Attached tables as collections, in one PostgreSQL database."""

    def __init__(self, database: Database, limits: Limits) -> None:
        """Use an open database."""
        self._database = database
        self._limits = limits
        self._check_at = 0.0  # monotonic
        self._has_tables = True  # until a check finds none
        self._gathering: asyncio.Task[None] | None = None
        self._last = 0  # the last table that was served: the next ones come first
        self._reported: dict[str, str] = {}  # last reported problem by collection
        self._left: frozenset[str] = frozenset()  # collections whose tables changed and belong to another role

    async def attach(
        self,
        declaration: Declaration,
        attachment: Attachment,
        *,
        dimensions: int | None = None,
        adopt: bool = False,
    ) -> Attached:
        """See `ports.Attaching`."""
        await attaching.attach(self._database, declaration, attachment, dimensions, adopt=adopt)
        self._database.woke()  # idle workers assume that there is no table
        for found in await self.attached():
            if found.collection == declaration.name:
                return found
        raise NotFound(f"collection {declaration.name!r} was detached by somebody else just now")

    async def detach(self, collection: str) -> None:
        """See `ports.Attaching`."""
        await attaching.detach(self._database, collection)

    async def attached(self) -> Sequence[Attached]:
        """See `ports.Attaching`."""
        return await listing.listing(self._database)

    async def gather(self, *, limit: int = 1000) -> int:
        """See `ports.Attaching`."""
        rows = await listing.gather(self._database, self._last, limit, self._limits.text_bytes)
        self._has_tables = bool(rows)
        troubled = [row["name"] for row in rows if self._report(row["name"], row["trouble"])]
        done = sum(int(row["done"]) for row in rows)
        if rows:
            self._last = rows[-1]["number"]  # it was served, or it took too long
        if done:
            self._database.woke()
        if troubled or (rows and monotonic() >= self._check_at):
            self._check_at = monotonic() + (SOON if troubled else CHECK_SECONDS)  # a lock may have been in the way
            done += await self._follow_changed()
        return done

    async def _follow_changed(self) -> int:
        """Follow tables whose shape changed; report once the ones that this role may not alter."""
        found = await self._database.run(owner, repeat=True)
        if found is None or found[1]:
            return await shape_changes.follow_changed(self._database)
        left = await shape_changes.left_to_owner(self._database)
        for collection in left.keys() - self._left:
            self._database.telemetry.emit(
                Event.TABLE_TROUBLE, level="error", collection=collection, error=left[collection]
            )
        self._left = frozenset(left)
        return 0

    async def wait_for_work(self, timeout: timedelta) -> None:  # noqa: ASYNC109 a bound, not a cancellation
        """See `ports.Leasing`. An idle worker also takes over what tables have noted."""
        if self._gathering is None or self._gathering.done():
            self._gathering = asyncio.create_task(self._gather_all())
        await self._database.wait(min(timeout, POLL) if self._has_tables else timeout)

    async def stop_gathering(self) -> None:
        """Stop taking over what tables have noted."""
        if self._gathering is not None:
            self._gathering.cancel()
            await asyncio.wait([self._gathering])

    async def _gather_all(self) -> None:
        """Take over all that tables have noted. The first step wakes workers; the rest continues while they work."""
        with suppress(StoreError):  # the duty that does the same reports it
            while await self.gather():
                pass

    def _report(self, collection: str, trouble: str | None) -> bool:
        """Report a problem once; say whether it is new."""
        if trouble is None:
            self._reported.pop(collection, None)
            return False
        if self._reported.get(collection) == trouble:
            return False
        self._reported[collection] = trouble
        self._database.telemetry.emit(Event.TABLE_TROUBLE, level="error", collection=collection, error=trouble)
        return True
