"""Search by words: how they are split, stemmed and weighed."""

import pytest

from embedq.model import NewRecord, Query, RecordId
from embedq.ports import Store
from embedq.testing.stores.stage import NOON, NOTES, Stage, declaration, write


class WordFacts(Stage):
    """What the words of a query find, and in which order."""

    async def test_words_are_stemmed_by_the_language(self, store: Store) -> None:
        """In an English collection one form of a word finds the others."""
        await write(store, "the looms run all night")

        for words in ("running", "runs", "loom", "nights"):
            assert [hit.id for hit in await store.search_words(NOTES, words, Query())] == ["a"]

    async def test_simple_words_are_compared_as_they_are_written(self, store: Store) -> None:
        """But for upper and lower case."""
        await store.declare(declaration("plain", language="simple"), now=NOON)
        await put(store, "plain", {"a": "the Looms run"})

        assert await store.search_words("plain", "running loom", Query()) == []
        assert [hit.id for hit in await store.search_words("plain", "lOOMS", Query())] == ["a"]

    async def test_a_rare_word_counts_for_more(self, store: Store) -> None:
        """A record with the word that few others hold comes before one with a word of many."""
        await put(store, NOTES, LOOM_AND_MILLS)

        hits = await store.search_words(NOTES, "mill loom", Query(k=2))

        assert hits[0].id == "loom"

    async def test_other_collections_do_not_change_what_a_word_weighs(self, store: Store) -> None:
        """A neighbour that is full of a word leaves order and scores as they are."""
        await put(store, NOTES, LOOM_AND_MILLS)
        before = await store.search_words(NOTES, "mill loom", Query())
        await store.declare(declaration("others"), now=NOON)
        await put(store, "others", {f"o{n}": f"loom {n}" for n in range(200)})

        after = await store.search_words(NOTES, "mill loom", Query())

        assert [(hit.id, hit.score) for hit in after] == [(hit.id, hit.score) for hit in before]

    async def test_the_parts_of_a_compound_are_words(self, store: Store) -> None:
        """A query is no phrase: hyphens and slashes part words, and each may match."""
        await write(store, "an art that belongs to no state")

        for words in ("state-of-the-art", "science/art", "art,craft"):
            assert [hit.id for hit in await store.search_words(NOTES, words, Query())] == ["a"]

    @pytest.mark.parametrize(
        "text", ["हिंदी भाषा", "தமிழ் மொழி", "مُحَمَّد", "cafe\u0301 ole\u0301", "Donau\u00addampf", "İstanbul"]
    )
    async def test_a_word_with_marks_finds_itself(self, store: Store, text: str) -> None:
        """Accents, vowel signs and joiners belong to their words, in queries as in texts."""
        await write(store, text)

        for word in text.split():
            assert [hit.id for hit in await store.search_words(NOTES, word, Query())] == ["a"]

    async def test_stop_words_find_nothing(self, store: Store) -> None:
        """A record that shares only such words with the query is not among the hits."""
        await put(store, NOTES, {"about": "what is the point of it", "loom": "loom"})

        hits = await store.search_words(NOTES, "What is the price of a loom?", Query())

        assert [hit.id for hit in hits] == ["loom"]

    async def test_a_word_of_every_record_finds_as_many_as_are_wanted(self, store: Store) -> None:
        """It tells none from another, and is still what the records hold."""
        await put(store, NOTES, {f"r{n}": f"loom number {n}" for n in range(40)})

        hits = await store.search_words(NOTES, "loom", Query(k=25))

        assert len({hit.id for hit in hits}) == 25

    async def test_a_change_of_language_reaches_what_was_there(self, store: Store) -> None:
        """Records are indexed anew by upkeep; until it is done, words find what they found."""
        await put(store, NOTES, {f"r{n}": f"running {n}" for n in range(30)})
        await store.declare(declaration(language="simple"), now=NOON)

        found = [len(await store.search_words(NOTES, "running", Query(k=50)))]
        while await store.finish(limit=7, now=NOON):
            found.append(len(await store.search_words(NOTES, "running", Query(k=50))))

        assert set(found) == {30}
        assert await store.search_words(NOTES, "run", Query()) == []

    async def test_what_is_written_during_a_change_of_language_is_found_after_it(self, store: Store) -> None:
        """Edits, deletions and new records, on both sides of what is indexed anew already."""
        await put(store, NOTES, {f"r{n:02}": f"running {n}" for n in range(30)})
        await store.declare(declaration(language="simple"), now=NOON)
        await store.finish(limit=15, now=NOON)

        await put(store, NOTES, {"r00": "weaving", "r29": "weaving", "new": "weaving"})
        await store.delete(NOTES, [RecordId("r01"), RecordId("r28")], now=NOON)
        await finish(store)

        assert await found_by(store, "weaving") == {"r00", "r29", "new"}
        assert await found_by(store, "running") == {f"r{n:02}" for n in range(2, 28)}

    async def test_a_second_change_of_language_begins_anew(self, store: Store) -> None:
        """The last language counts, however far the one before had come."""
        await put(store, NOTES, {f"r{n}": f"running {n}" for n in range(30)})
        for language in ("simple", "english"):
            await store.declare(declaration(language=language), now=NOON)
            await store.finish(limit=10, now=NOON)
        await put(store, NOTES, {"r0": "it ran"})

        await finish(store)

        assert await found_by(store, "run") == {f"r{n}" for n in range(1, 30)}

    async def test_the_language_of_an_empty_collection_changes_at_once(self, store: Store) -> None:
        """What is put after it is stemmed by the new one."""
        await store.declare(declaration(language="simple"), now=NOON)

        await write(store, "running")

        assert await store.search_words(NOTES, "run", Query()) == []

    @pytest.mark.parametrize(("words", "says_more"), [("loom", True), ("loom mill", True), ("loom yarn", False)])
    async def test_a_hit_says_how_much_of_the_query_it_holds(
        self, store: Store, words: str, *, says_more: bool
    ) -> None:
        """One of several words is nothing: the record may be about something else."""
        await put(store, NOTES, {**{f"r{n}": f"text {n}" for n in range(9)}, "both": "loom and mill"})

        [hit] = await store.search_words(NOTES, words, Query())

        assert hit.share is not None
        assert (hit.share > 0) is says_more


LOOM_AND_MILLS = {
    "loom": "loom one",
    **{f"m{n}": f"mill {n}" for n in range(3)},
    **{f"x{n}": f"hill {n}" for n in range(6)},
}


async def put(store: Store, collection: str, texts: dict[str, str]) -> None:
    """Put texts by id."""
    await store.put(collection, [NewRecord(id=RecordId(id_), text=text) for id_, text in texts.items()], now=NOON)


async def finish(store: Store) -> None:
    """Let upkeep do all that is left."""
    while await store.finish(limit=7, now=NOON):
        continue


async def found_by(store: Store, words: str) -> set[str]:
    """Search by words for all records that match."""
    return {hit.id for hit in await store.search_words(NOTES, words, Query(k=100))}
