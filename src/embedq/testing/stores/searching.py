"""Search by vector and by words."""

import asyncio
from dataclasses import replace

import pytest

from embedq.errors import Conflict, TooLarge
from embedq.model import NewRecord, Query, RecordId
from embedq.policy.filters import read_filter
from embedq.ports import Store
from embedq.testing.stores.stage import (
    NOON,
    NOTES,
    Stage,
    declaration,
    embed_all,
    vector_of,
    write,
    write_many,
)

HOSTILE = [
    '"',
    "C++",
    "foo-bar",
    "a AND",
    "NEAR(",
    "*",
    "-x",
    "text:",
    "'; DROP TABLE x; --",
    "( )",
    "^a",
    "\\",
    "日本",
]


class SearchFacts(Stage):
    """What search finds, and what it never does."""

    async def test_the_nearest_comes_first_with_its_cosine(self, store: Store) -> None:
        """The text's own vector has cosine one."""
        await write_many(store, 20)
        await embed_all(store)

        hits = await store.search_vector(NOTES, vector_of("text r 7"), Query(k=5))

        assert len(hits) == 5
        assert (hits[0].id, hits[0].text, hits[0].stale) == ("r7", "text r 7", False)
        assert hits[0].score == pytest.approx(1.0, abs=1e-5)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)

    async def test_an_update_is_found_and_the_old_is_not(self, store: Store, other: Store) -> None:
        """In the writing process and in another, right after the commit."""
        await write(store, "A")
        await embed_all(store)
        await other.search_vector(NOTES, vector_of("A"), Query(k=1))
        await write(store, "B")
        [stale] = await other.search_vector(NOTES, vector_of("A"), Query(k=1))
        await embed_all(store)

        for which in (store, other):
            [hit] = await which.search_vector(NOTES, vector_of("B"), Query(k=1))
            assert (hit.text, hit.stale) == ("B", False)
            assert hit.score == pytest.approx(1.0, abs=1e-5)
        assert (stale.text, stale.stale) == ("B", True)

    async def test_a_deleted_record_takes_no_place_among_the_nearest(self, store: Store, other: Store) -> None:
        """Where the nearest ones are deleted, there are still as many hits as requested."""
        await write_many(store, 8)
        await embed_all(store)
        query = Query(k=3)
        for which in (store, other):
            await which.search_vector(NOTES, vector_of("text r 0"), query)
        nearest = [hit.id for hit in await store.search_vector(NOTES, vector_of("text r 0"), query)]

        await store.delete(NOTES, nearest[:2], now=NOON)
        await store.delete(NOTES, nearest[2:], purge=True, now=NOON)

        for which in (store, other):
            found = {hit.id for hit in await which.search_vector(NOTES, vector_of("text r 0"), query)}
            assert len(found) == 3
            assert found.isdisjoint(nearest)

    async def test_a_deleted_record_is_not_found(self, store: Store, other: Store) -> None:
        """By neither search, in neither process; a record that is put again is."""
        await write_many(store, 3)
        await embed_all(store)
        await other.search_vector(NOTES, vector_of("text r 1"), Query(k=3))
        await store.delete(NOTES, [RecordId("r1")], now=NOON)

        for which in (store, other):
            hits = await which.search_vector(NOTES, vector_of("text r 1"), Query(k=3))
            words = await which.search_words(NOTES, "text", Query(k=3))
            assert {hit.id for hit in hits} == {hit.id for hit in words} == {"r0", "r2"}
        await write(store, "text r 1", "r1")
        await embed_all(store)
        [hit] = await other.search_vector(NOTES, vector_of("text r 1"), Query(k=1))
        assert hit.id == "r1"

    async def test_filters_never_cut_the_answer_short(self, store: Store) -> None:
        """As many hits as match, up to k, however rare they are."""
        records = [
            NewRecord(id=RecordId(f"r{n}"), text=f"text {n}", attributes={"rare": n % 40 == 0, "mod": n % 4})
            for n in range(200)
        ]
        await store.put(NOTES, records, now=NOON)
        await embed_all(store)
        wanted = Query(k=10, filter=read_filter({"rare": True}))

        by_vector = await store.search_vector(NOTES, vector_of("text 1"), wanted)
        by_words = await store.search_words(NOTES, "text", wanted)

        expected = {"r0", "r40", "r80", "r120", "r160"}
        assert {hit.id for hit in by_vector} == {hit.id for hit in by_words} == expected
        several = Query(k=1000, filter=read_filter({"mod": [1, 2]}))
        assert len(await store.search_vector(NOTES, vector_of("text 1"), several)) == 100

    async def test_tenants_do_not_see_each_other(self, store: Store) -> None:
        """With a tenant given, only its records are found."""
        for tenant in ("one", "two"):
            records = [NewRecord(id=RecordId(f"{tenant}{n}"), text=f"text {n}", tenant=tenant) for n in range(5)]
            await store.put(NOTES, records, now=NOON)
        await embed_all(store)
        query = Query(k=10, tenant="one")

        hits = await store.search_vector(NOTES, vector_of("text 1"), query)
        words = await store.search_words(NOTES, "text", query)

        assert {hit.id[:3] for hit in (*hits, *words)} == {"one"}
        assert len(hits) == len(words) == 5

    async def test_words_find_current_texts_only(self, store: Store) -> None:
        """An edit removes the old words, in the same commit."""
        await write(store, "weaving on a loom")
        await write(store, "spinning a yarn")

        assert await store.search_words(NOTES, "loom", Query()) == []
        [hit] = await store.search_words(NOTES, "yarn unheard", Query())
        assert hit.text == "spinning a yarn"

    async def test_a_better_match_of_words_comes_first(self, store: Store) -> None:
        """More of the words is better."""
        await write(store, "the loom is old", "one")
        await write(store, "weaving on the loom", "two")

        hits = await store.search_words(NOTES, "weaving loom", Query())

        assert [hit.id for hit in hits] == ["two", "one"]

    @pytest.mark.parametrize("words", HOSTILE)
    async def test_a_query_is_words_never_syntax(self, store: Store, words: str) -> None:
        """No input breaks the search."""
        await write(store, f"something {words} else", "with")
        await write(store, "plain", "without")

        hits = await store.search_words(NOTES, f"something {words}", Query())

        assert [hit.id for hit in hits] == ["with"]

    async def test_two_puts_of_one_record_at_once_leave_one_text(self, store: Store) -> None:
        """The word index has what the record has, also when edits share a commit."""
        await write(store, "zero")
        await asyncio.gather(*(write(store, f"word{n} shared") for n in range(20)))
        [hit] = await store.search_words(NOTES, "shared", Query())

        found = [n for n in range(20) if await store.search_words(NOTES, f"word{n}", Query())]

        assert [f"word{n} shared" for n in found] == [hit.text]
        assert await store.search_words(NOTES, "zero", Query()) == []

    async def test_an_empty_collection_has_no_hits(self, store: Store) -> None:
        """An empty collection returns nothing, not an error."""
        assert await store.search_vector(NOTES, vector_of("A"), Query()) == []
        assert await store.search_words(NOTES, "A", Query()) == []
        assert await store.search_words(NOTES, "  ", Query()) == []

    async def test_a_vector_of_another_space_is_refused(self, store: Store) -> None:
        """A collection that was declared again with another embedder never returns the old one's cosines."""
        await write(store, "A")
        await embed_all(store)
        [space] = await store.spaces()
        own, other = Query(space=space), Query(space=replace(space, version=space.version + 1))

        assert [hit.id for hit in await store.search_vector(NOTES, vector_of("A"), own)] == ["a"]
        with pytest.raises(Conflict):
            await store.search_vector(NOTES, vector_of("A"), other)

    async def test_an_answer_shows_live_records_as_they_are_now(self, store: Store) -> None:
        """In the order requested, each once, and whether their vectors are current; beside it, the freshness."""
        await write_many(store, 3)
        await embed_all(store)
        await write(store, "edited", "r1")
        await store.delete(NOTES, [RecordId("r0")], now=NOON)

        shown, fresh = await store.show(NOTES, [RecordId(name) for name in ("r2", "r1", "r0", "none", "r2")])

        assert [(one.id, one.text, one.current) for one in shown] == [("r2", "text r 2", True), ("r1", "edited", False)]
        assert [dict(one.attributes) for one in shown] == [{}, {}]
        assert (fresh.coverage, fresh.pending) == (0.5, 1)

    async def test_an_answer_that_is_too_large_is_not_shown(self, store: Store) -> None:
        """One record is always shown; several only up to the limit."""
        await write(store, "A" * 100, "a")
        await write(store, "B" * 100, "b")
        both = [RecordId("a"), RecordId("b")]

        with pytest.raises(TooLarge):
            await store.show(NOTES, both, max_bytes=150)
        for ids, most in ((both[:1], 50), (both, 1000)):
            shown, _ = await store.show(NOTES, ids, max_bytes=most)
            assert [one.id for one in shown] == ids

    async def test_search_finds_records_of_its_collection_only(self, store: Store) -> None:
        """Two collections may contain the same ids and texts."""
        await store.declare(declaration("others"), now=NOON)
        await store.put("others", [NewRecord(id=RecordId("x"), text="Apple")], now=NOON)
        await write(store, "Apple", "mine")
        await embed_all(store)

        hits = await store.search_vector(NOTES, vector_of("Apple"), Query(k=10))
        words = await store.search_words(NOTES, "Apple", Query(k=10))

        assert [hit.id for hit in hits] == [hit.id for hit in words] == ["mine"]
