"""Words on PostgreSQL: how they are indexed and counted, and what a search by them finds meanwhile."""

import asyncio

import asyncpg
import pytest
from tests.stores.postgres.older import install_as_0_2
from tests.stores.postgres.tables import attach, attach_docs

from embedq.model import NewRecord, Patch, Query, RecordId
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import NOON, NOTES, declaration, write

OF_0_2 = """
INSERT INTO embedq.space (provider, model) VALUES ('fake', 'fake');
INSERT INTO embedq.collection (name, space, priority, retry, created_at)
  SELECT 'notes', id, 1, '{"base": 1, "cap": 300, "factor": 2, "jitter": 0.2, "max_attempts": 3}', now()
  FROM embedq.space;
INSERT INTO embedq.record (collection, id, hash, text, attributes, created_at, updated_at)
  SELECT id, 'old', '\\x01', 'Looms weaving', '{}', now(), now() FROM embedq.collection;
INSERT INTO embedq.tally (collection, records) SELECT id, 1 FROM embedq.collection;
"""
NOT_DONE = "SELECT r.after, c.former FROM embedq.collection c LEFT JOIN embedq.reindex r ON r.collection = c.id"
MANY = 1500


async def found(store: PostgresStore, words: str, k: int = 10) -> list[str]:
    return [hit.id for hit in await store.search_words(NOTES, words, Query(k=k))]


async def finish(store: PostgresStore) -> None:
    while await store.finish(limit=1, now=NOON):
        pass


async def test_words_of_before_are_found_at_once(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database of 0.2 is searched as it is, beside what is new in it, until its words are indexed anew."""
    await install_as_0_2(postgres_url, monkeypatch)
    db = await asyncpg.connect(postgres_url)
    await db.execute(OF_0_2)
    store = await PostgresStore.open(postgres_url)
    await write(store, "weaving anew", "new")

    assert sorted(await found(store, "weaving")) == ["new", "old"]
    await finish(store)

    assert tuple(await db.fetchrow(NOT_DONE)) == (None, [])
    assert sorted(await found(store, "weaving")) == ["new", "old"]
    await store.close()
    await db.close()


async def test_a_change_of_language_loses_nothing_meanwhile(store: PostgresStore, db: asyncpg.Connection) -> None:
    """What is indexed by the former language is found by its words as they are written, and then by the new one's."""
    await store.declare(declaration(language="simple"), now=NOON)
    await finish(store)
    await write(store, "running dogs", "a")
    await write(store, "running cats", "b")
    assert await found(store, "run") == []

    await store.declare(declaration(language="english"), now=NOON)
    await write(store, "he runs", "c")

    assert sorted(await found(store, "running")) == ["a", "b", "c"]
    assert await found(store, "run") == ["c"]
    assert await store.finish(limit=1, now=NOON) == 1
    assert sorted(await found(store, "run")) == ["a", "c"]
    await finish(store)
    assert sorted(await found(store, "run")) == ["a", "b", "c"]
    assert tuple(await db.fetchrow(NOT_DONE)) == (None, [])


async def test_two_changes_of_language_lose_nothing(store: PostgresStore) -> None:
    """Records of three languages are found at once."""
    await store.declare(declaration(language="simple"), now=NOON)
    await finish(store)
    await write(store, "laufend running", "a")
    await store.declare(declaration(language="german"), now=NOON)
    await write(store, "laufend running", "b")
    await store.declare(declaration(language="english"), now=NOON)
    await write(store, "laufend running", "c")

    assert sorted(await found(store, "laufend")) == ["a", "b", "c"]
    assert sorted(await found(store, "running")) == ["a", "b", "c"]


async def test_words_are_counted_once_there_are_many(store: PostgresStore, db: asyncpg.Connection) -> None:
    """A count is taken again only after the collection has changed much, and goes with the collection."""
    records = [NewRecord(id=RecordId(f"r{n}"), text=f"common half{n % 2} own{n}") for n in range(MANY)]
    await store.put(NOTES, records, now=NOON)
    await finish(store)
    counted = {row["word"]: row["records"] for row in await db.fetch("SELECT word, records FROM embedq.lexeme")}

    assert counted == {"common": MANY, "half0": MANY // 2, "half1": MANY // 2}
    assert await store.finish(now=NOON) == 0
    await store.put(NOTES, [NewRecord(id=RecordId("one"), text="one more")], now=NOON)
    assert await store.finish(now=NOON) == 0
    await store.drop(NOTES, now=NOON)
    await finish(store)
    assert await db.fetchval("SELECT count(*) FROM embedq.lexeme") == 0


@pytest.mark.parametrize("counted", [False, True])
async def test_rare_words_find_and_all_words_rank(store: PostgresStore, *, counted: bool) -> None:
    """What holds the rare word comes first, and common words fill what is asked for."""
    records = [NewRecord(id=RecordId(f"r{n:04}"), text=f"common words of {n}") for n in range(MANY)]
    await store.put(NOTES, records, now=NOON)
    await write(store, "a rare loom of common words", "both")
    await write(store, "a loom, and nothing else of what is asked for", "loom")
    if counted:
        await finish(store)

    assert (await found(store, "the common loom"))[:2] == ["both", "loom"]
    assert len(set(await found(store, "the common loom", k=50))) == 50


async def test_a_word_of_only_common_ones_finds(store: PostgresStore) -> None:
    """However many records have it, as many as asked for are answered."""
    await store.put(NOTES, [NewRecord(id=RecordId(f"r{n}"), text=f"common {n}") for n in range(5000)], now=NOON)
    await finish(store)

    assert len(await found(store, "common", k=1000)) == 1000
    hits = await store.search_words(NOTES, "common", Query(k=3, tenant="nobody"))
    assert hits == []


async def test_attaching_again_keeps_the_language(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The language is declared, not attached: the same command once more does not set it back."""
    await attach_docs(store, db, rows=1)
    await store.declare(declaration("docs", language="german"), now=NOON)

    await attach(store)

    [docs] = [one for one in await store.collections() if one.declaration.name == "docs"]
    assert docs.declaration.language == "german"


async def test_a_put_under_way_is_indexed_before_the_language_changes(store: PostgresStore, postgres_url: str) -> None:
    """A transaction that has put by the old language is waited for: none is committed behind the re-indexing."""
    application = await asyncpg.connect(postgres_url)
    async with application.transaction():
        await store.put(NOTES, [NewRecord(id=RecordId("a"), text="running")], now=NOON, connection=application)
        changing = asyncio.create_task(store.declare(declaration(language="simple"), now=NOON))
        done, _ = await asyncio.wait([changing], timeout=0.5)
        assert not done
    await changing
    await finish(store)
    await application.close()

    assert await found(store, "running") == ["a"]
    assert await found(store, "run") == []


async def test_words_are_counted_again_after_a_change_of_language(store: PostgresStore) -> None:
    """By the counts of the former language the commonest word would be taken for the rarest."""
    await store.declare(declaration(language="simple"), now=NOON)
    await finish(store)
    records = [NewRecord(id=RecordId(f"r{n}"), text=f"companies report {n}") for n in range(MANY)]
    zebras = [NewRecord(id=RecordId(f"z{n}"), text=f"a lone zebra {n}") for n in range(10)]
    await store.put(NOTES, [*records, *zebras], now=NOON)
    await finish(store)
    assert {name[0] for name in await found(store, "companies zebra")} == {"z"}

    await store.declare(declaration(language="english"), now=NOON)
    assert {name[0] for name in await found(store, "companies zebra")} == {"z"}
    while await store.finish(now=NOON):
        pass

    assert {name[0] for name in await found(store, "companies zebra")} == {"z"}


async def test_a_held_record_keeps_nobody_waiting_but_the_reindexing(store: PostgresStore, postgres_url: str) -> None:
    """An open transaction is not waited for with other records locked, and nothing is left out in the end."""
    for name in ("a", "b", "c"):
        await write(store, "running", name)
    await store.declare(declaration(language="simple"), now=NOON)
    application = await asyncpg.connect(postgres_url)
    async with application.transaction():
        await store.delete(NOTES, [RecordId("c")], now=NOON, connection=application)
        assert await store.finish(now=NOON) == 0
        async with asyncio.timeout(5):
            await write(store, "walking", "a")
    await application.close()
    await finish(store)

    assert await found(store, "running") == ["b"]
    assert await found(store, "run") == []


async def test_a_patch_that_waits_meets_the_collection_as_it_is_then(store: PostgresStore, postgres_url: str) -> None:
    """A language that changes while a patch waits for its record does not make it say that the record is gone."""
    await write(store, "running", "a")
    application = await asyncpg.connect(postgres_url)
    async with application.transaction():
        await application.execute("SELECT FROM embedq.record WHERE id = 'a' FOR UPDATE")
        patching = asyncio.create_task(store.patch(NOTES, RecordId("a"), Patch(attributes={"n": 1}), now=NOON))
        while not await application.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):  # noqa: ASYNC110 only it knows
            await asyncio.sleep(0.01)
        await store.declare(declaration(language="simple"), now=NOON)
    await application.close()

    assert (await patching).id == "a"


async def test_reindexing_fails_no_transaction_with_a_snapshot(store: PostgresStore, postgres_url: str) -> None:
    """One that puts new records under repeatable read gets through between two steps."""
    for name in ("a", "b", "c"):
        await write(store, "running", name)
    await store.declare(declaration(language="simple"), now=NOON)
    application = await asyncpg.connect(postgres_url)
    async with application.transaction(isolation="repeatable_read"):
        await application.execute("SELECT FROM embedq.record")
        assert await store.finish(limit=1, now=NOON) == 1
        await store.put(NOTES, [NewRecord(id=RecordId("d"), text="new")], now=NOON, connection=application)
    await application.close()

    assert await found(store, "new") == ["d"]
