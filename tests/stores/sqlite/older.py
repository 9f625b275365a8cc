"""Files as older versions have left them, made by the scripts and bare statements of then."""

import sqlite3
from collections.abc import Collection, Mapping
from pathlib import Path

from embedq.policy.texts import hash_of
from embedq.stores.sqlite.connection import connect
from embedq.stores.sqlite.schema import migrations, statements

SPACE = "INSERT INTO embedq_space (id, provider, model, dimensions) VALUES (1, 'fake', 'fake', 8)"
COLLECTION = """
INSERT INTO embedq_collection (id, name, space, priority, retry, created_at)
VALUES (?, ?, 1, 1, '{"base": 1, "factor": 2, "cap": 300, "jitter": 0.2, "max_attempts": 3}', 0)
"""
TALLY = "INSERT INTO embedq_tally (collection, open, records, missing) VALUES (?1, ?2, ?2, ?2)"
RECORD = """
INSERT INTO embedq_record (collection, id, hash, text, attributes, created_at, updated_at)
VALUES (?, ?, ?, ?, '{}', 0, 0) RETURNING rid
"""
JOB = """
INSERT INTO embedq_job (id, record, collection, space, priority, queued_at, hash, created_at)
SELECT rid, rid, collection, 1, 1, 0, hash, 0 FROM embedq_record WHERE rid = ?
"""
READY = "INSERT INTO embedq_ready SELECT 1, 2 << 48, id, collection FROM embedq_job WHERE id = ?"
MISSING = "INSERT INTO embedq_missing SELECT collection, rid FROM embedq_record WHERE rid = ?"
WORDS = "INSERT INTO embedq_words (rowid, text) SELECT rid, text FROM embedq_record WHERE rid = ?"
DELETE = "UPDATE embedq_record SET valid_to = 1 WHERE id = ?"


def make(
    path: Path, version: int, collections: Mapping[str, Mapping[str, str]], *, deleted: Collection[str] = ()
) -> None:
    """Make a file of this version of the schema, with these collections of texts by id; all wait to be embedded."""
    db = connect(path, create=True)
    for _, script in migrations()[:version]:
        for statement in statements(script):
            db.execute(statement)
    db.execute("UPDATE embedq_control SET value = ? WHERE name = 'schema'", (version,))
    db.execute("INSERT INTO embedq_control VALUES ('identity', 7)")
    db.execute(SPACE)
    for number, (name, texts) in enumerate(collections.items(), 1):
        db.execute(COLLECTION, (number, name))
        db.execute(TALLY, (number, len(texts)))
        for id_, text in texts.items():
            _put(db, number, id_, text)
    for id_ in deleted:
        db.execute(DELETE, (id_,))
    db.close()


def _put(db: sqlite3.Connection, collection: int, id_: str, text: str) -> None:
    (rid,) = db.execute(RECORD, (collection, id_, hash_of(text), text)).fetchone()
    for statement in (JOB, READY, MISSING, WORDS):
        db.execute(statement, (rid,))
