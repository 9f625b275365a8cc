"""Collections and spaces."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from embedq.errors import Conflict, Invalid, NotFound
from embedq.model import Collection, Declaration, EmbedderName, Priority, RetryPolicy, Space, SpaceId
from embedq.policy.texts import compose, hash_of
from embedq.stores.columns import read_retry, read_text_from, write_retry, write_text_from
from embedq.stores.sqlite.arming import TRY_AGAIN, Arms, arm, note_missing
from embedq.stores.sqlite.moments import when
from embedq.stores.sqlite.transaction import Transaction, ids
from embedq.stores.sqlite.word_tables import WordTables, check_language, create, unfinished

SPACE_NAME = "s.provider || ':' || s.model || '@' || s.asked || '/' || s.version"  # as `model.Space.id`
NUMBER_OF = f"(SELECT s.id FROM embedq_space s WHERE {SPACE_NAME} = {{}})"  # number of the space that a parameter names
FIND = "SELECT id, name, space, text_from, priority, retry, language FROM embedq_collection WHERE name = ?"
LIST = """
SELECT c.name, c.text_from, c.priority, c.retry, c.language, c.created_at,
  s.provider, s.model, s.asked, s.dimensions, s.version
FROM embedq_collection c JOIN embedq_space s ON s.id = c.space WHERE c.name IS NOT NULL ORDER BY c.name
"""

# Spaces that live collections use.
SPACES = """
SELECT s.provider, s.model, s.asked, s.dimensions, s.version FROM embedq_space s
WHERE s.id IN (SELECT space FROM embedq_collection WHERE name IS NOT NULL) ORDER BY s.id
"""
ENSURE_SPACE = "INSERT OR IGNORE INTO embedq_space (provider, model, asked, dimensions) VALUES (?, ?, ?, ?)"
SPACE_OF = "SELECT id FROM embedq_space WHERE provider = ? AND model = ? AND asked = ? ORDER BY version DESC LIMIT 1"
CREATE = """
INSERT INTO embedq_collection (name, space, text_from, priority, retry, language, created_at)
VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id
"""
CHANGE = "UPDATE embedq_collection SET space = ?, text_from = ?, priority = ?, retry = ?, language = ? WHERE id = ?"

# Fix a space's dimensions, once.
LEARN = f"""
UPDATE embedq_space SET dimensions = coalesce(dimensions, ?) WHERE id = {NUMBER_OF.format("?")} RETURNING dimensions
"""

# The next records whose text must be recomposed.
NEXT_TO_RECOMPOSE = """
SELECT rid, id, hash, text, attributes FROM embedq_record
WHERE collection = ? AND id > ? AND valid_to IS NULL ORDER BY id LIMIT ?
"""
RECOMPOSED = "UPDATE embedq_collection SET recompose = ? WHERE id = ?"


@dataclass(frozen=True, slots=True)
class Found:
    """A collection as writers need it."""

    id: int
    name: str
    space: int
    text_from: tuple[str, ...] | None
    priority: int
    retry: RetryPolicy


def find(db: sqlite3.Connection, name: str) -> Found:
    """Find a collection, or raise."""
    row = db.execute(FIND, (name,)).fetchone()
    if row is None:
        raise NotFound(f"no collection {name!r}: declare it, or put a first record into it")
    id_, name, space, text_from, priority, retry, _ = row
    return Found(id_, name, space, read_text_from(text_from), priority, read_retry(retry))


def listing(db: sqlite3.Connection) -> list[Collection]:
    """List the collections by name."""
    return [_collection(row) for row in db.execute(LIST)]


def spaces(db: sqlite3.Connection) -> list[Space]:
    """List the spaces in use."""
    return [read_space(row) for row in db.execute(SPACES)]


def declare(tx: Transaction, wanted: Declaration, now: int) -> int:
    """Create or change a collection; return its number. `recompose` and `fill_words` do the rest later."""
    check_language(wanted.language)
    row = tx.db.execute(FIND, (wanted.name,)).fetchone()
    space = _ensure_space(tx.db, wanted.embedder)
    text_from = write_text_from(wanted.text_from)
    settled = (space, text_from, int(wanted.priority), write_retry(wanted.retry), wanted.language)
    if row is None:
        (id_,) = tx.db.execute(CREATE, (wanted.name, *settled, now)).fetchone()
        tx.db.execute("INSERT INTO embedq_tally (collection) VALUES (?)", (id_,))
        create(tx.db, id_, wanted.language)
        return int(id_)
    if row[2] != space and _has_records(tx.db, row[0]):
        raise Conflict(f"collection {wanted.name!r} has records of another embedder: changing it is a migration")
    if tuple(row[2:]) != settled:
        tx.db.execute(CHANGE, (*settled, row[0]))
    if row[3] != text_from and text_from is not None:
        tx.db.execute(RECOMPOSED, ("", row[0]))
    if row[6] != wanted.language:
        _change_language(tx, row[0], wanted.language)
    return int(row[0])


def _change_language(tx: Transaction, collection: int, language: str) -> None:
    words = WordTables.of(tx.db, collection)
    if words is None:
        return
    words.change(tx.db, language)
    if not tx.has_words and not _has_records(tx.db, collection):
        words.switch(tx.db)


def fill_words(tx: Transaction, limit: int) -> int:
    """Index some records by the new language of their collection; 0 when none is left.

    Until all are, searches are served by the words of the old one.
    """
    words = unfinished(tx.db)
    if words is None:
        return 0
    if not tx.has_words:  # otherwise the next step does it: texts would be indexed that the end of this one changes
        words.fill(tx.db, limit)
    return 1


def recompose(tx: Transaction, limit: int, now: int, *, arms: bool = True) -> int:
    """Recompose some texts after a change of `text_from`, and arm those that changed; 0 when none is left.

    Without `arms` the jobs are in another database, and the reconciler finds the records.
    """
    row = tx.db.execute("SELECT name, recompose FROM embedq_collection WHERE recompose IS NOT NULL LIMIT 1").fetchone()
    if row is None:
        return 0
    collection, after = find(tx.db, row[0]), row[1]
    records = tx.db.execute(NEXT_TO_RECOMPOSE, (collection.id, after, limit)).fetchall()
    changed = [made for record in records if (made := _recomposed(collection, record)) is not None]
    for rid, old, text in changed:
        tx.db.execute("UPDATE embedq_record SET text = ?, hash = ? WHERE rid = ?", (text, hash_of(text), rid))
        tx.remember_words(collection.id, rid, old)
    if changed:
        rids = [rid for rid, _, _ in changed]
        if arms:
            arm(tx, rids, Arms(collection=collection.id, space=collection.space, priority=collection.priority), now)
        tx.db.execute(TRY_AGAIN, (ids(rids),))
        note_missing(tx, rids, collection.id, collection.space)
    tx.db.execute(RECOMPOSED, (records[-1][1] if len(records) == limit else None, collection.id))
    return len(records) or 1


def _recomposed(collection: Found, record: tuple[int, str, bytes, str, str]) -> tuple[int, str, str] | None:
    """Recompose one text. A record that has none of the new attributes keeps its text."""
    rid, _, old_hash, old, attributes = record
    try:
        text = compose(collection.text_from, None, json.loads(attributes))
    except Invalid:
        return None
    return None if hash_of(text) == old_hash else (rid, old, text)


def learn(tx: Transaction, space: SpaceId, dimensions: int) -> int:
    """Fix a space's dimensions by its first valid answer."""
    row = tx.db.execute(LEARN, (dimensions, space)).fetchone()
    if row is None:
        raise NotFound(f"no space {space}")
    return int(row[0])


def names(db: sqlite3.Connection, collections: Sequence[int]) -> dict[int, tuple[str | None, RetryPolicy]]:
    """Return collections' names with their retry policies; a dropped one has no name."""
    rows = db.execute(
        "SELECT id, name, retry FROM embedq_collection WHERE id IN (SELECT value FROM json_each(?))",
        (ids(collections),),
    )
    return {id_: (name, read_retry(retry)) for id_, name, retry in rows}


def _has_records(db: sqlite3.Connection, collection: int) -> bool:
    row = db.execute("SELECT records FROM embedq_tally WHERE collection = ?", (collection,)).fetchone()
    return bool(row and row[0])


def _ensure_space(db: sqlite3.Connection, embedder: EmbedderName) -> int:
    key = (embedder.provider, embedder.model, embedder.dimensions or 0)
    db.execute(ENSURE_SPACE, (*key, embedder.dimensions))
    (id_,) = db.execute(SPACE_OF, key).fetchone()
    return int(id_)


def _collection(row: tuple[str, str | None, int, str, str, int, str, str, int, int | None, int]) -> Collection:
    name, text_from, priority, retry, language, created_at, *space = row
    found = read_space(tuple(space))  # type: ignore[arg-type]  # the tail of the row
    declaration = Declaration(
        name=name,
        embedder=found.embedder,
        text_from=read_text_from(text_from),
        priority=Priority(priority),
        retry=read_retry(retry),
        language=language,
    )
    return Collection(declaration=declaration, space=found, created_at=when(created_at))


def read_space(row: tuple[str, str, int, int | None, int]) -> Space:
    """Read a space."""
    provider, model, asked, dimensions, version = row
    embedder = EmbedderName(provider=provider, model=model, dimensions=asked or None)
    return Space(embedder=embedder, dimensions=dimensions, version=version)
