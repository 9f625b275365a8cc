"""The application's own table, in SQL."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from .forms import Changes, NewEntry

Entry = Mapping[str, Any]

SCHEMA = Path(__file__).with_name("schema.sql")
SCHEMA_LOCK = 4_004_001  # any number: two processes that start at once make the schema one after the other

INSERT = """
INSERT INTO yellow_book_entry (name, description, categories, city, phone, website)
VALUES ($1, $2, $3, $4, $5, $6) RETURNING *
"""
# Writers of one entry wait for each other here, so that the last description stored is the last one queued.
LOCK = "SELECT * FROM yellow_book_entry WHERE id = $1 FOR UPDATE"
DELETE = "DELETE FROM yellow_book_entry WHERE id = $1"
FIND = "SELECT * FROM yellow_book_entry WHERE id = $1"
FIND_ALL = "SELECT * FROM yellow_book_entry WHERE id = ANY ($1::uuid[])"
UNDESCRIBED = """
SELECT e.* FROM yellow_book_entry e, plainto_tsquery('pg_catalog.simple', $1) q
WHERE description IS NULL AND yellow_book_words(name, categories, city) @@ q AND ($2::text IS NULL OR city = $2)
ORDER BY ts_rank(yellow_book_words(name, categories, city), q) DESC, id LIMIT $3
"""


class Database(Protocol):
    """What is asked of a connection: asyncpg brings no types of its own."""

    def transaction(self) -> AbstractAsyncContextManager[object]:
        """Begin; commit at the end, or roll back."""
        ...

    async def execute(self, statement: str, *values: object) -> object:
        """Run."""
        ...

    async def fetch(self, statement: str, *values: object) -> Any:  # noqa: ANN401 rows of any shape
        """Run, and read all rows."""
        ...

    async def fetchrow(self, statement: str, *values: object) -> Any:  # noqa: ANN401 a row of any shape
        """Run, and read the first row, if there is one."""
        ...


async def make_schema(db: Database) -> None:
    """Make the table, if it is not there."""
    async with db.transaction():
        await db.execute("SELECT pg_advisory_xact_lock($1)", SCHEMA_LOCK)
        await db.execute(SCHEMA.read_text())


async def insert(db: Database, new: NewEntry) -> Entry:
    """Enter a business."""
    entry: Entry = await db.fetchrow(
        INSERT, new.name, new.description, new.categories, new.city, new.phone, new.website
    )
    return entry


async def lock(db: Database, id_: UUID) -> Entry | None:
    """Read an entry, and keep others from changing it until this transaction ends."""
    entry: Entry | None = await db.fetchrow(LOCK, id_)
    return entry


async def update(db: Database, id_: UUID, changes: Changes) -> Entry:
    """Change what was sent."""
    given = changes.given  # its names are the form's own: none comes from a caller
    columns = ", ".join(f"{name} = ${place}" for place, name in enumerate(given, start=2))
    statement = f"UPDATE yellow_book_entry SET updated_at = now(), {columns} WHERE id = $1 RETURNING *"  # noqa: S608 see above
    entry: Entry = await db.fetchrow(statement, id_, *given.values())
    return entry


async def delete(db: Database, id_: UUID) -> None:
    """Take an entry out."""
    await db.execute(DELETE, id_)


async def find(db: Database, id_: UUID) -> Entry | None:
    """Read one entry."""
    entry: Entry | None = await db.fetchrow(FIND, id_)
    return entry


async def find_all(db: Database, ids: Sequence[str]) -> dict[str, Entry]:
    """Read those of these entries that are there."""
    return {str(entry["id"]): entry for entry in await db.fetch(FIND_ALL, [UUID(id_) for id_ in ids])}


async def undescribed(db: Database, words: str, city: str | None, limit: int) -> Sequence[Entry]:
    """Find entries without a description by their words."""
    found: Sequence[Entry] = await db.fetch(UNDESCRIBED, words, city, limit)
    return found
