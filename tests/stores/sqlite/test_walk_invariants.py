"""What must hold inside the file after any walk, whatever the store's answers say."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from itertools import product
from pathlib import Path

import pytest
import pytest_asyncio

from embedq.stores.sqlite import SqliteStore
from embedq.stores.sqlite.connection import connect
from embedq.testing.stores.acts import Pair
from embedq.testing.stores.walks import Walker, walk_of

WALKS = 25

# Every open job with the number of places it is in, and every closed job that is in one: both lists must be empty.
MISPLACED = """
WITH place AS (
  SELECT r.job FROM embedq_ready r UNION ALL SELECT l.job FROM embedq_later l
  UNION ALL SELECT e.value FROM embedq_lease l CROSS JOIN json_each(l.jobs) e)
SELECT j.id, j.status, (SELECT count(*) FROM place WHERE place.job = j.id) AS places FROM embedq_job j
WHERE places <> (j.status = 0)
UNION ALL SELECT job, NULL, 1 FROM place WHERE job NOT IN (SELECT id FROM embedq_job)
"""

# A job in line stands where its row says, and a lease that holds nothing is gone.
OUT_OF_PLACE = """
SELECT r.job FROM embedq_ready r JOIN embedq_job j ON j.id = r.job
WHERE r.space <> j.space OR r.key <> ((3 - j.priority + 4 * (j.crashes >= 2)) << 48) + j.queued_at
UNION ALL SELECT token FROM embedq_lease WHERE jobs = '[]'
"""
COUNTED = """
SELECT c.id,
  (SELECT count(*) FROM embedq_job j WHERE j.collection = c.id AND j.status = 0),
  (SELECT count(*) FROM embedq_job j WHERE j.collection = c.id AND j.status = 2),
  (SELECT count(*) FROM embedq_job j WHERE j.collection = c.id AND j.status = 3),
  (SELECT count(*) FROM embedq_job j WHERE j.collection = c.id AND j.status = 4),
  (SELECT count(*) FROM embedq_record x WHERE x.collection = c.id AND x.valid_to IS NULL),
  (SELECT count(*) FROM embedq_missing m WHERE m.collection = c.id)
FROM embedq_collection c ORDER BY c.id
"""
TALLIED = "SELECT collection, open, completed, failed, cancelled, records, missing FROM embedq_tally ORDER BY 1"
LISTED = "SELECT collection, record FROM embedq_missing ORDER BY 1, 2"
LACKING = """
SELECT x.collection, x.rid FROM embedq_record x JOIN embedq_collection c ON c.id = x.collection
LEFT JOIN embedq_vector v ON v.record = x.rid AND v.space = c.space
WHERE x.valid_to IS NULL AND (v.embedding IS NULL OR v.hash <> x.hash) ORDER BY 1, 2
"""

# Words that a collection's table finds, and its live records that hold them.
COLLECTIONS = "SELECT id FROM embedq_collection WHERE name IS NOT NULL"
TABLES = "SELECT count(*) FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL TABLE embedq_words%'"
INDEXED = "SELECT rowid FROM embedq_words_{0}_1 WHERE embedq_words_{0}_1 MATCH ? ORDER BY 1"
WRITTEN = """
SELECT rid FROM embedq_record WHERE collection = ? AND valid_to IS NULL AND text LIKE '%' || ? || '%' ORDER BY 1
"""
SOUND = "INSERT INTO embedq_words_{0}_1 (embedq_words_{0}_1, rank) VALUES ('integrity-check', 0)"


class Watched(Walker):
    """A ground whose file is looked at while the walk's records are still there."""

    def __init__(self, store: SqliteStore, other: SqliteStore, db: sqlite3.Connection) -> None:
        """Walk on a store that is opened twice, and look through a connection of one's own."""
        super().__init__(store, other)
        self._db = db
        self.looks = 0

    async def end(self, pair: Pair) -> None:
        """Look, clear away, and look again."""
        look_at(self._db)
        self.looks += 1
        await super().end(pair)
        look_at(self._db)


def look_at(db: sqlite3.Connection) -> None:
    """Check the file by reading all of it."""
    assert db.execute(MISPLACED).fetchall() == []
    assert db.execute(OUT_OF_PLACE).fetchall() == []
    assert db.execute(TALLIED).fetchall() == db.execute(COUNTED).fetchall()
    assert db.execute(LISTED).fetchall() == db.execute(LACKING).fetchall()
    collections = [number for (number,) in db.execute(COLLECTIONS)]
    assert db.execute(TABLES).fetchall() == [(len(collections),)]
    for number, word in product(collections, ("amber", "birch", "cedar", "loom", "mill")):
        found = db.execute(INDEXED.format(number), (word,)).fetchall()
        assert found == db.execute(WRITTEN, (number, word)).fetchall()
    for number in collections:
        db.execute(SOUND.format(number))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "embedq.db"


@pytest_asyncio.fixture
async def ground(place: Path) -> AsyncIterator[Watched]:
    store, other = await SqliteStore.open(place), await SqliteStore.open(place)
    db = connect(place)
    yield Watched(store, other, db)
    db.close()
    await store.close()
    await other.close()


@pytest.fixture
def reopened(place: Path) -> Iterator[sqlite3.Connection]:
    db = connect(place)
    yield db
    db.close()


async def test_every_job_is_in_one_place(ground: Watched) -> None:
    """Open jobs are in line, waiting or under one lease; sums, missing vectors and words are what a full read finds."""
    for seed in range(WALKS):
        assert await ground.walk(walk_of(seed)) is None

    assert ground.looks == WALKS


async def test_the_file_stays_sound(ground: Watched, reopened: sqlite3.Connection) -> None:
    """SQLite's own checks of pages, indexes and words find nothing, and a dropped collection leaves no row behind."""
    for seed in range(WALKS):
        await ground.walk(walk_of(-seed))

    assert reopened.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert reopened.execute(TABLES).fetchall() == [(0,)]
    for table in ("record", "job", "ready", "later", "lease", "missing", "tally", "collection"):
        assert reopened.execute(f"SELECT count(*) FROM embedq_{table}").fetchone() == (0,)  # noqa: S608 our own names
