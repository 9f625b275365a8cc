"""The page about removing embedq leaves a shared file to its owner, as it was."""

import asyncio
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

from embedq.stores.sqlite import SqliteStore
from embedq.testing.stores.stage import NOON, declaration, embed_all, write

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "remove-it.md"
LEFT = "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"


async def test_an_applications_tables_stay(tmp_path: Path) -> None:
    """All that begins with embedq_ is gone, and nothing else."""
    store = await SqliteStore.open(tmp_path / "shop.db")
    collection = await store.declare(declaration(), now=NOON)
    await store.learn(collection.space.id, 8)
    await write(store, "A")
    await embed_all(store)
    await store.close()
    with sqlite3.connect(tmp_path / "shop.db") as db:
        db.execute("CREATE TABLE embedqueue (id INTEGER PRIMARY KEY)")
        db.execute("INSERT INTO embedqueue VALUES (7)")
    db.close()
    [program] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)

    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", program], cwd=tmp_path, check=True)

    db = sqlite3.connect(tmp_path / "shop.db")
    assert db.execute(LEFT).fetchall() == [("embedqueue",)]
    assert db.execute("SELECT id FROM embedqueue").fetchall() == [(7,)]
    db.close()
