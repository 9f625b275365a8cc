"""The methods of `Tables` without asyncio. Made by tools/generate_sync.py: not to be edited."""

from collections.abc import Sequence
from typing import Any

from embedq.attachment import Attached
from embedq.client.tables import Tables
from embedq.sync.portal import Portal


class SyncTables:
    """Attaches tables and detaches them."""

    def __init__(self, asynchronous: Tables, portal: Portal) -> None:
        """Run its methods on this portal, and wait for them."""
        self._async = asynchronous
        self._portal = portal

    def attach(
        self,
        table: str,
        *,
        key: Sequence[str],
        text: Sequence[str],
        collection: str | None = None,
        embedder: str | None = None,
        adopt: bool = False,
        **options: Any,
    ) -> Attached:
        """Make a table a collection: its existing rows are embedded, and every later change.

        With other options it alters the attachment: only texts that change are embedded again.

        Args:
            table: Its name, or SCHEMA.NAME.
            key: The columns of a unique index; a record's id is the key as text, or a JSON list of texts.
            text: The columns that the text is made from, joined in order.
            collection: Its name as a collection; without it the table's.
            embedder: What embeds it; without it the settings'.
            adopt: Trust that the vectors in the column `into` are those of the rows' current texts.
            **options: `into` (a vector column of the table), `priority` (an SQL expression), `tenant` (a column),
                `attributes` (columns that searches can filter by).
        """
        return self._portal.run(
            self._async.attach,
            table,
            key=key,
            text=text,
            collection=collection,
            embedder=embedder,
            adopt=adopt,
            **options,
        )

    def detach(self, collection: str) -> None:
        """Remove the triggers from a table, and drop its collection; vectors in the table's own column stay."""
        self._portal.run(self._async.detach, collection)

    def listing(self) -> Sequence[Attached]:
        """List the attached tables, by collection."""
        return self._portal.run(self._async.listing)

    def gather(self) -> int:
        """Process some noted changes of tables, as workers do themselves; 0 when there is nothing to do."""
        return self._portal.run(self._async.gather)
