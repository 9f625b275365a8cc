"""Install and upgrade the schema."""

import secrets
import sqlite3
from importlib import resources
from pathlib import Path

from embedq.errors import StoreUnusable
from embedq.stores.sqlite.connection import speaking
from embedq.stores.sqlite.word_tables import create_all

AFTER = {6: create_all}  # by version: what its script cannot say


def migrations() -> list[tuple[int, str]]:
    """List the schema's versions, oldest first."""
    folder = resources.files(__package__).joinpath("schema")
    scripts = sorted((item.name, item.read_text()) for item in folder.iterdir() if item.name.endswith(".sql"))
    return [(int(name[:3]), script) for name, script in scripts]


def migrate(db: sqlite3.Connection, path: Path) -> None:
    """Bring the file to this version's schema; safe to repeat and to run concurrently."""
    known = migrations()
    with speaking(path):
        if installed_version(db, path, newest=known[-1][0]) == known[-1][0]:
            return
        db.execute("BEGIN IMMEDIATE")
        try:
            installed = installed_version(db, path, newest=known[-1][0])  # another process may have been faster
            for version, script in known:
                if version > installed:
                    _install(db, version, script)
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise


def statements(script: str) -> list[str]:
    """Split a script into statements, so that they run inside one transaction."""
    found, part = [], ""
    for line in script.splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            found.append(part)
            part = ""
    return found


def installed_version(db: sqlite3.Connection, path: Path, *, newest: int) -> int:
    """Read the schema's version from our own table: the file's user_version may belong to the application."""
    (ours,) = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'embedq_control'").fetchone()
    if not ours:
        return 0
    (version,) = db.execute("SELECT value FROM embedq_control WHERE name = 'schema'").fetchone()
    if version > newest:
        raise StoreUnusable(
            f"{path} has schema version {version}, this embedq knows {newest}: upgrade embedq, or open another file"
        )
    return int(version)


def _install(db: sqlite3.Connection, version: int, script: str) -> None:
    for statement in statements(script):
        db.execute(statement)
    if version in AFTER:
        AFTER[version](db)
    db.execute("UPDATE embedq_control SET value = ? WHERE name = 'schema'", (version,))
    db.execute("INSERT OR IGNORE INTO embedq_control VALUES ('identity', ?)", (secrets.randbits(62),))
