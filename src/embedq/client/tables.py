"""An application's existing tables as collections."""

from collections.abc import Sequence
from typing import Any

from embedq.attachment import Attached, Attachment
from embedq.client.intake import check_collection
from embedq.client.options import ClientOptions
from embedq.client.queries import Embedders
from embedq.embedding import Purpose
from embedq.errors import Invalid
from embedq.model import Declaration
from embedq.policy.naming import parse_embedder
from embedq.policy.vectors import checked
from embedq.ports import Attaching, Embedder
from embedq.telemetry import Event, Telemetry

SAMPLE = "How many numbers?"  # embedded once to learn the dimensions of an embedder
MAX_COLUMNS = 32
ELSEWHERE = "tables can be attached in PostgreSQL: EMBEDQ_URL=postgresql://user@host/database"


class Tables:
    """Attaches tables and detaches them."""

    def __init__(self, store: object, embedders: Embedders, *, options: ClientOptions, telemetry: Telemetry) -> None:
        """Attach tables of this store's database."""
        self._store = store
        self._embedders = embedders
        self._options = options
        self._telemetry = telemetry

    async def attach(
        self,
        table: str,
        *,
        key: Sequence[str],
        text: Sequence[str],
        collection: str | None = None,
        embedder: str | None = None,
        adopt: bool = False,
        **options: Any,  # noqa: ANN401 each is of its own field's type
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
        store = self._attaching()
        wanted = Attachment(table=table, key=_names(key), text=_names(text), **_read(options))
        name = self._embedders.canonical(parse_embedder(embedder) if embedder else self._options.embedder)
        check_collection(table if collection is None else collection)
        declaration = Declaration(
            name=table if collection is None else collection, embedder=name, retry=self._options.retry
        )
        if adopt and wanted.into is None:
            raise Invalid("to adopt vectors, name the column that they are in: --into")
        dimensions = None
        if wanted.into is not None:
            built = await self._embedders.get(name)
            dimensions = built.dimensions or await _dimensions(built)
        attached = await store.attach(declaration, wanted, dimensions=dimensions, adopt=adopt)
        self._telemetry.emit(Event.ATTACHED, collection=attached.collection, table=table, rows=attached.rows)
        return attached

    async def detach(self, collection: str) -> None:
        """Remove the triggers from a table, and drop its collection; vectors in the table's own column stay."""
        await self._attaching().detach(collection)
        self._telemetry.emit(Event.DETACHED, collection=collection)

    async def listing(self) -> Sequence[Attached]:
        """List the attached tables, by collection."""
        return await self._attaching().attached()

    async def gather(self) -> int:
        """Process some noted changes of tables, as workers do themselves; 0 when there is nothing to do."""
        return await self._attaching().gather()

    def _attaching(self) -> Attaching:
        if not isinstance(self._store, Attaching):
            raise Invalid(ELSEWHERE)
        return self._store


async def _dimensions(embedder: Embedder) -> int:
    """Find out an embedder's dimensions."""
    answer = await embedder.embed([SAMPLE], Purpose.DOCUMENT)
    return len(checked(answer.vectors, texts=1, dimensions=None)[0])


def _names(columns: Sequence[str]) -> tuple[str, ...]:
    """Parse column names."""
    if isinstance(columns, str) or not all(columns):
        raise Invalid("columns are a list of names")
    if len(columns) > MAX_COLUMNS:
        raise Invalid(f"{len(columns)} columns: at most {MAX_COLUMNS}")
    return tuple(columns)


def _read(options: dict[str, Any]) -> dict[str, Any]:
    unknown = sorted(options.keys() - {"into", "priority", "tenant", "attributes"})
    if unknown:
        raise Invalid(f"unknown: {', '.join(unknown)}")
    named = {name: value or None for name, value in options.items()}  # empty counts as not given
    return named | {"attributes": _names(options.get("attributes") or ())}
