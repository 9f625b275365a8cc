"""The tables of words: what is in them, and what a ranking reads."""

import sqlite3
from pathlib import Path

import pytest
from tests.stores.sqlite import older

from embedq.errors import Invalid
from embedq.model import NewRecord, Query, RecordId
from embedq.policy.filters import read_filter
from embedq.stores.sqlite import SqliteStore, word_ranking, word_tables
from embedq.testing.stores.stage import NOON, NOTES, declaration, write

VIRTUAL = "SELECT name FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL%' ORDER BY 1"
SHOP = "shop"
WRITE_AS_BEFORE = "INSERT INTO embedq_words (rowid, text) VALUES (1, 'A')"


async def put(store: SqliteStore, texts: dict[str, str], **attributes: object) -> None:
    records = [NewRecord(id=RecordId(id_), text=text, attributes=attributes) for id_, text in texts.items()]
    await store.put(NOTES, records, now=NOON)


async def found(store: SqliteStore, words: str, query: Query | None = None, name: str = NOTES) -> list[str]:
    return [hit.id for hit in await store.search_words(name, words, query or Query())]


async def test_words_of_an_older_file_are_found_per_collection(tmp_path: Path) -> None:
    """What all collections had in one table is in those of each after the upgrade; what was deleted is in none."""
    path = tmp_path / "embedq.db"
    texts = {NOTES: {"a": "loom one", "b": "loom two", "c": "loom three"}, SHOP: {"a": "mill", "z": "loom"}}
    older.make(path, 5, texts, deleted={"c"})

    store = await SqliteStore.open(path)

    assert await found(store, "loom") == ["a", "b"]
    assert await found(store, "loom", name=SHOP) == ["z"]
    assert await found(store, "mill", name=SHOP) == ["a"]
    await store.close()


async def test_an_older_file_can_be_written_after_the_upgrade(tmp_path: Path) -> None:
    """The new table holds what the records say, so an edit removes the old words."""
    path = tmp_path / "embedq.db"
    older.make(path, 5, {NOTES: {"a": "loom one", "b": "loom two"}})
    store = await SqliteStore.open(path)

    await write(store, "mill", "a")
    await store.delete(NOTES, [RecordId("b")], now=NOON)

    assert (await found(store, "loom"), await found(store, "mill")) == ([], ["a"])
    await store.close()


async def test_a_process_of_an_older_version_cannot_write_past_the_new_tables(db: sqlite3.Connection) -> None:
    """Its statement fails, and its whole transaction with it."""
    with pytest.raises(sqlite3.OperationalError, match="no such table: embedq_words"):
        db.execute(WRITE_AS_BEFORE)


async def test_a_dropped_collection_leaves_no_words(store: SqliteStore, db: sqlite3.Connection) -> None:
    """Neither those that served nor those that were being filled."""
    await put(store, {"a": "A", "b": "B"})
    await store.declare(declaration(language="simple"), now=NOON)
    await store.finish(limit=1, now=NOON)
    filling = db.execute(VIRTUAL).fetchall()

    await store.drop(NOTES, now=NOON)

    assert filling == [("embedq_words_1_1",), ("embedq_words_1_2",)]
    assert db.execute(VIRTUAL).fetchall() == []


async def test_a_finished_change_of_language_leaves_one_table(store: SqliteStore, db: sqlite3.Connection) -> None:
    """The words of the old one are dropped when the new ones serve."""
    await put(store, {"a": "A", "b": "B"})
    await store.declare(declaration(language="simple"), now=NOON)

    while await store.finish(limit=1, now=NOON):
        continue

    assert db.execute(VIRTUAL).fetchall() == [("embedq_words_1_2",)]


async def test_a_language_without_a_stemmer_is_refused(store: SqliteStore) -> None:
    """The sentence says what SQLite has, and where the language is to be had; nothing is declared."""
    with pytest.raises(Invalid, match=r"'german': SQLite stems english alone; .* PostgreSQL, which stems german"):
        await store.declare(declaration("briefe", language="german"), now=NOON)

    assert [one.declaration.name for one in await store.collections()] == [NOTES]


@pytest.mark.usefixtures("store")
def test_a_ranking_reads_no_record(db: sqlite3.Connection) -> None:
    """Records that match and are not among the best cost no look at the table of records."""
    statement = word_ranking.RANK.format(table="embedq_words_1_1", joined="", filters="")

    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", ("a", 0, 10))]

    assert [step.split()[:2] for step in plan] == [["SCAN", "embedq_words_1_1"], ["USE", "TEMP"]]


@pytest.mark.usefixtures("store")
def test_a_narrowed_ranking_finds_its_records_by_number(db: sqlite3.Connection) -> None:
    """The words come first: a record is read only if it holds one."""
    joined = word_ranking.JOINED.format(table="embedq_words_1_1")
    statement = word_ranking.RANK.format(table="embedq_words_1_1", joined=joined, filters="AND x.tenant = ?")

    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", ("a", 0, "t", 10))]

    assert plan[0].startswith("SCAN embedq_words_1_1")
    assert plan[1].startswith("SEARCH x USING INTEGER PRIMARY KEY")


@pytest.mark.usefixtures("store")
def test_an_upgrade_reads_the_records_of_one_collection_at_a_time(db: sqlite3.Connection) -> None:
    """Their numbers are sorted, not their texts, which may not fit into memory."""
    statement = word_tables.INDEX_ALL.format(table="embedq_words_1_1")

    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", (1,))]

    assert any("embedq_record USING COVERING INDEX" in step and "(collection=?)" in step for step in plan), plan
    assert plan[-1].startswith("SEARCH x USING INTEGER PRIMARY KEY"), plan


@pytest.mark.usefixtures("store")
def test_a_step_reads_the_records_of_its_range(db: sqlite3.Connection) -> None:
    """In their order, however many others the collection has."""
    statement = word_tables.INDEX_RANGE.format(table="embedq_words_1_1")

    plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", (1, 2, 1))]

    assert plan == ["SEARCH embedq_record USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"]


async def test_records_that_match_alike_come_in_the_order_of_their_numbers(store: SqliteStore) -> None:
    """The same query has the same answer."""
    await put(store, {f"r{n}": "loom" for n in (3, 1, 2)})

    assert await found(store, "loom", Query(k=2)) == ["r3", "r1"]


async def test_a_common_word_chooses_no_record_and_still_counts(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a rarer word finds enough, ids and scores are those of a search that ranks all matches."""
    await put(store, {f"r{n:02}": f"loom {'mill ' * (n % 3)}{'rare' if n % 5 == 0 else n}" for n in range(40)})
    whole = await store.search_words(NOTES, "loom mill rare", Query(k=8))
    monkeypatch.setattr(word_ranking, "MOST_RANKED", 10)

    hits = await store.search_words(NOTES, "loom mill rare", Query(k=8))

    assert [hit.id for hit in hits] == [hit.id for hit in whole]
    assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in whole])


async def test_common_words_fill_up_what_rarer_ones_leave(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are as many hits as wanted, the one with the rare word before all."""
    await put(store, {f"r{n:02}": "loom" for n in range(40)} | {"rare": "loom rare"})
    monkeypatch.setattr(word_ranking, "MOST_RANKED", 10)

    hits = await found(store, "loom rare", Query(k=6))

    assert (len(hits), hits[0]) == (6, "rare")


async def test_of_a_word_of_all_only_the_newest_are_ranked(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them matches much better, and ranking all would take long."""
    await put(store, {f"r{n:02}": "loom" for n in range(40)})
    monkeypatch.setattr(word_ranking, "MOST_RANKED", 10)

    assert await found(store, "loom", Query(k=3)) == ["r30", "r31", "r32"]


@pytest.mark.parametrize("words", ["loom", "loom rare"])
async def test_a_filter_is_not_cut_short_by_common_words(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """Matches that are older than those a search without a filter would rank are found, too."""
    await put(store, {"old": "loom", "older": "loom"}, kept=True)
    await put(store, {f"r{n:02}": "loom rare" if n == 7 else "loom" for n in range(40)})
    monkeypatch.setattr(word_ranking, "MOST_RANKED", 10)

    assert await found(store, words, Query(k=5, filter=read_filter({"kept": True}))) == ["old", "older"]


async def test_the_longest_query_is_one_the_index_can_read(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many words as a query may have, most of them common."""
    words = " ".join(f"word{n}" for n in range(64))
    await put(store, {f"r{n}": words for n in range(9)} | {"rare": "word0"})
    monkeypatch.setattr(word_ranking, "MOST_RANKED", 9)

    assert len(await found(store, words, Query(k=20))) == 10
