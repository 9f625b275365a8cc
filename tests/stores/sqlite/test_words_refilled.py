"""The next table of words is filled in steps, while records change and processes die."""

import asyncio
import random
import signal
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from embedq.model import NewRecord, Patch, Query, RecordId
from embedq.policy.texts import Limits
from embedq.stores.sqlite import SqliteStore, collections, deleting, putting
from embedq.stores.sqlite.moments import stamp
from embedq.stores.sqlite.transaction import Transaction
from embedq.stores.sqlite.word_tables import TOKENIZERS, WordTables
from embedq.testing.stores.stage import NOON, NOTES, declaration

WORDS = ("running", "looms", "mills", "weaving", "yarns")
MOMENT = stamp(NOON, 0)
RECORDS = "SELECT rid, text FROM embedq_record WHERE collection = 1 AND valid_to IS NULL AND rid <= ? ORDER BY rid"
INSTANCES = "SELECT term, doc, offset FROM temp.instances ORDER BY 1, 2, 3"
TOTALS = "SELECT block FROM {table}_data WHERE id = 1"  # the number of records and words, by which BM25 weighs
ALL = 1 << 60

DYING = """
import asyncio, os, pathlib, signal
from embedq.stores.sqlite import SqliteStore
from embedq.testing.stores.stage import NOON, declaration

async def die():
    store = await SqliteStore.open(pathlib.Path("embedq.db"))
    await store.declare(declaration(language="simple"), now=NOON)
    for _ in range(2):
        await store.finish(limit=10, now=NOON)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(die())
"""


async def put(store: SqliteStore, texts: dict[str, str]) -> None:
    await store.put(NOTES, [NewRecord(id=RecordId(id_), text=text) for id_, text in texts.items()], now=NOON)


def text_of(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 6)))


async def change(store: SqliteStore, chance: random.Random) -> None:
    """Put, patch, delete or purge some records; of thirty, most are there already."""
    names = [RecordId(f"r{chance.randrange(30)}") for _ in range(chance.randint(1, 4))]
    match chance.randrange(4):
        case 0:
            await put(store, {name: text_of(chance) for name in names})
        case 1:
            await put(store, {names[0]: text_of(chance)})
            await store.patch(NOTES, names[0], Patch(text=text_of(chance)), now=NOON)
        case 2:
            await store.delete(NOTES, names, now=NOON)
        case _:
            await store.delete(NOTES, names, purge=True, now=NOON)


def contents(db: sqlite3.Connection, table: str) -> tuple[object, object]:
    """Read each word with its places, and the totals."""
    db.execute(f"CREATE VIRTUAL TABLE temp.instances USING fts5vocab('main', '{table}', 'instance')")
    found = db.execute(INSTANCES).fetchall()
    (totals,) = db.execute(TOTALS.format(table=table)).fetchone()
    db.execute("DROP TABLE temp.instances")
    return found, totals.rstrip(b"\0")  # nothing at all is written as nothing, or as zeros


def fresh(records: list[tuple[int, str]], language: str) -> tuple[object, object]:
    """Read the same of a table that is filled at once."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE VIRTUAL TABLE fresh USING fts5 (text, tokenize = '{TOKENIZERS[language]}')")
        db.executemany("INSERT INTO fresh (rowid, text) VALUES (?, ?)", records)
        return contents(db, "fresh")


def look_at(db: sqlite3.Connection, *, current: str, following: str | None) -> None:
    """Compare the tables with the records as they are now; the next one with those that it has come to."""
    words = WordTables.of(db, 1)
    assert words is not None
    assert contents(db, words.current) == fresh(db.execute(RECORDS, (ALL,)).fetchall(), current)
    if following is not None:
        assert contents(db, words.next) == fresh(db.execute(RECORDS, (words.filled,)).fetchall(), following)


@pytest.mark.parametrize("seed", range(6))
async def test_both_tables_are_kept_in_step(store: SqliteStore, db: sqlite3.Connection, seed: int) -> None:
    """After each change and each step the old table has all live texts, the next one those that it has come to."""
    chance = random.Random(seed)  # noqa: S311 a walk that can be repeated, no secret
    await put(store, {f"r{n}": text_of(chance) for n in range(20)})
    await store.declare(declaration(language="simple"), now=NOON)

    while collections.unfinished(db):
        look_at(db, current="english", following="simple")
        await change(store, chance)
        look_at(db, current="english", following="simple")
        await store.finish(limit=3, now=NOON)
    await change(store, chance)

    look_at(db, current="simple", following=None)


async def test_a_process_that_dies_between_steps_leaves_the_rest_to_the_next(
    store: SqliteStore, db: sqlite3.Connection, tmp_path: Path
) -> None:
    """The old words serve, what was filled stays, and the next process goes on from there."""
    await put(store, {f"r{n:02}": f"running {n}" for n in range(40)})
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", DYING, cwd=tmp_path)
    assert await process.wait() == -signal.SIGKILL

    words = WordTables.of(db, 1)
    before = await store.search_words(NOTES, "runs", Query(k=50))
    while await store.finish(limit=10, now=NOON):
        continue

    assert (words is not None and words.filled, len(before)) == (20, 40)
    look_at(db, current="simple", following=None)


async def test_a_step_waits_for_texts_that_change_in_the_same_commit(
    store: SqliteStore, db: sqlite3.Connection
) -> None:
    """Their old words are not in the next table, and must not be taken from it."""
    await put(store, {"a": "running looms and mills", "b": "looms"})
    await store.declare(declaration(language="simple"), now=NOON)

    def work(tx: Transaction) -> int:
        putting.put(tx, NOTES, [NewRecord(id=RecordId("a"), text="mills")], Limits(), MOMENT)
        return collections.fill_words(tx, 10)

    left = await store._file.write(work)
    look_at(db, current="english", following="simple")
    while await store.finish(now=NOON):
        continue

    assert left == 1
    look_at(db, current="simple", following=None)


async def test_a_collection_that_is_emptied_and_changed_in_one_commit_stays_sound(
    store: SqliteStore, db: sqlite3.Connection
) -> None:
    """The words of what was deleted are taken from the table that has them."""
    await put(store, {"a": "running", "b": "looms"})

    def work(tx: Transaction) -> None:
        deleting.delete(tx, NOTES, [RecordId("a"), RecordId("b")], MOMENT, purge=False, tenant=None)
        collections.declare(tx, declaration(language="simple"), MOMENT)

    await store._file.write(work)
    look_at(db, current="english", following="simple")
    while await store.finish(now=NOON):
        continue

    look_at(db, current="simple", following=None)
