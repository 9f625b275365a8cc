"""This process's cache of collections. Writes and leases report when it is out of date."""

from dataclasses import dataclass
from typing import Any

from embedq.errors import Conflict, NotFound
from embedq.model import RetryPolicy
from embedq.stores.columns import read_retry, read_text_from
from embedq.stores.postgres.connection import Connection

COLUMNS = """id, name, revision, space, text_from, priority, retry, language,
(SELECT a.made_for FROM embedq.attachment a WHERE a.collection = collection.id) AS attached,
(SELECT c.identity::text FROM embedq.control c) AS identity"""
FIND = f"SELECT {COLUMNS} FROM embedq.collection WHERE name = $1"
ALL = f"SELECT {COLUMNS} FROM embedq.collection"
EPOCH = "SELECT epoch + first_token FROM embedq.control"  # as a lease reports it: it differs after a schema was dropped


@dataclass(frozen=True, slots=True)
class Found:
    """A collection as writers need it."""

    id: int
    name: str | None  # None: dropped
    revision: int
    space: int
    text_from: tuple[str, ...] | None
    priority: int
    retry: RetryPolicy
    attached: str | None = None  # the table whose rows are its records
    identity: str | None = None  # of its database

    def named(self) -> dict[str, object]:
        """Name it for a function that is called on another connection, which may be to another database."""
        return {"name": self.name, "collection": self.id, "revision": self.revision, "identity": self.identity}

    def check_writable(self) -> None:
        """Refuse to write records whose source is an attached table."""
        if self.attached is not None:
            raise Conflict(f"the records of {self.name!r} are the rows of {self.attached}: write to that table")


class Catalogue:
    """Collections by name, for writers, and by number, for leases."""

    def __init__(self) -> None:
        """Start empty."""
        self._by_name: dict[str, Found] = {}
        self._by_id: dict[int, Found] = {}
        self._epoch = 0

    def recall(self, name: str) -> Found | None:
        """Return a collection as it was when last read."""
        return self._by_name.get(name)

    def forget(self, name: str) -> None:
        """Remove an outdated entry."""
        self._by_name.pop(name, None)

    def remember(self, found: Found) -> None:
        """Store a collection."""
        if found.name is not None:
            self._by_name[found.name] = found

    def knows(self, epoch: int, ids: set[int]) -> bool:
        """Say whether these collections are cached as of this epoch."""
        return epoch == self._epoch and ids <= self._by_id.keys()

    def name_of(self, id_: int) -> Found | None:
        """Return the name of a collection by number; None if it is gone."""
        return self._by_id.get(id_)

    async def read(self, db: Connection) -> None:
        """Read all collections. The epoch is read first: a change in between is noticed the next time."""
        epoch = await db.fetchval(EPOCH)
        found = [made(row) for row in await db.fetch(ALL)]
        self._by_id = {item.id: item for item in found}
        self._by_name = {item.name: item for item in found if item.name is not None}
        self._epoch = epoch


def made(row: Any) -> Found:  # noqa: ANN401 a row
    """Read a collection's row."""
    return Found(
        row["id"],
        row["name"],
        row["revision"],
        row["space"],
        read_text_from(row["text_from"]),
        row["priority"],
        read_retry(row["retry"]),
        row.get("attached"),
        row.get("identity"),
    )


async def find(db: Connection, name: str) -> Found:
    """Find a collection as it is now, or raise."""
    row = await db.fetchrow(FIND, name)
    if row is None:
        raise absent(name)
    return made(row)


def absent(name: str) -> NotFound:
    """Make the error for a collection that does not exist."""
    return NotFound(f"no collection {name!r}: declare it, or put a first record into it")
