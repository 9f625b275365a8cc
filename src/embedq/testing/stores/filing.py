"""Collections, missing records, recomposed texts."""

import pytest

from embedq.errors import Conflict, Invalid, NotFound
from embedq.model import EmbedderName, NewRecord, Patch, Priority, RecordId
from embedq.ports import Store
from embedq.testing.stores.stage import (
    NOON,
    NOTES,
    Stage,
    declaration,
    done,
    embed_all,
    read,
    take,
    take_one,
    write,
    write_many,
)


class FilingFacts(Stage):
    """How records are organised in collections."""

    async def test_declaring_again_changes_nothing(self, store: Store) -> None:
        """The same declaration is the same collection."""
        await write(store, "A")
        before = await store.collections()

        await store.declare(declaration(), now=NOON)

        assert await store.collections() == before
        assert len(await take(store)) == 1

    async def test_another_embedder_over_records_is_refused(self, store: Store) -> None:
        """It would be a migration; an empty collection may still change its embedder."""
        changed = declaration(embedder=EmbedderName(provider="fake", model="other"))
        await store.declare(changed, now=NOON)
        await store.declare(declaration(), now=NOON)
        await write(store, "A")

        with pytest.raises(Conflict):
            await store.declare(changed, now=NOON)

    async def test_text_is_made_from_attributes(self, store: Store) -> None:
        """In their order; what is absent is left out; an explicit text is refused."""
        await store.declare(declaration("rules", text_from=("title", "guidance")), now=NOON)
        record = NewRecord(id=RecordId("a"), attributes={"guidance": "G", "title": "T", "other": "O"})
        await store.put("rules", [record], now=NOON)

        assert (await take_one(store)).text == "T\nG"
        with pytest.raises(Invalid):
            await store.put("rules", [NewRecord(id=RecordId("b"), text="own")], now=NOON)
        with pytest.raises(Invalid):
            await store.put("rules", [NewRecord(id=RecordId("b"), attributes={"other": "O"})], now=NOON)

    async def test_another_text_from_re_arms_what_changed(self, store: Store) -> None:
        """Records whose text stays the same are left alone."""
        await store.declare(declaration("rules", text_from=("title",)), now=NOON)
        records = [
            NewRecord(id=RecordId("both"), attributes={"title": "T", "more": "M"}),
            NewRecord(id=RecordId("one"), attributes={"title": "T only"}),
        ]
        await store.put("rules", records, now=NOON)
        await embed_all(store)

        await store.declare(declaration("rules", text_from=("title", "more")), now=NOON)

        lease = await take_one(store)
        assert (lease.record_id, lease.text) == ("both", "T\nM")

    async def test_patch_of_a_part_recomposes_the_text(self, store: Store) -> None:
        """Only if the text changes does a job run."""
        await store.declare(declaration("rules", text_from=("title",)), now=NOON)
        await store.put("rules", [NewRecord(id=RecordId("a"), attributes={"title": "T", "other": 1})], now=NOON)
        await embed_all(store)
        await store.patch("rules", RecordId("a"), Patch(attributes={"other": 2}), now=NOON)
        assert await take(store) == []

        await store.patch("rules", RecordId("a"), Patch(attributes={"title": "T2"}), now=NOON)

        assert (await take_one(store)).text == "T2"

    async def test_the_collections_priority_is_the_default(self, store: Store) -> None:
        """A record without its own priority goes in its collection's lane."""
        await store.declare(declaration("soon", priority=Priority.HIGH), now=NOON)
        await write(store, "A", "normal")
        await store.put("soon", [NewRecord(id=RecordId("high"), text="B")], now=NOON)

        assert [lease.record_id for lease in await take(store)] == ["high", "normal"]

    async def test_a_dropped_collection_leaves_nothing(self, store: Store) -> None:
        """Records, jobs and counts are removed, also under a running lease; the name is free again."""
        await write_many(store, 30)
        await store.settle([done(lease) for lease in await take(store, limit=10)], now=NOON)
        running = await take(store, limit=5)

        await store.drop(NOTES, now=NOON)
        settled = await store.settle([done(lease) for lease in running], now=NOON)

        assert settled.jobs == frozenset()
        assert NOTES not in await store.counts()
        with pytest.raises(NotFound):
            await store.records(NOTES)
        await store.declare(declaration(), now=NOON)
        assert (await store.records(NOTES)).items == []
        assert await take(store) == []

    async def test_dimensions_are_fixed_by_the_first_answer(self, store: Store, other: Store) -> None:
        """The second call returns what is fixed."""
        collection = await store.declare(
            declaration("fresh", embedder=EmbedderName(provider="fake", model="unknown")), now=NOON
        )

        assert await store.learn(collection.space.id, 5) == 5
        assert await other.learn(collection.space.id, 6) == 5

    async def test_missing_is_found_in_bounded_steps(self, store: Store) -> None:
        """Exactly as many as requested, then on after the last, only live ones without a vector."""
        await write_many(store, 30)
        await store.settle([done(lease) for lease in await take(store, limit=10)], now=NOON)
        await store.delete(NOTES, [RecordId("r15")], now=NOON)

        first = await store.missing(NOTES, limit=7)
        rest = await store.missing(NOTES, after=first[-1].key, limit=100)

        assert len(first) == 7
        names = {found.id for found in (*first, *rest)}
        assert names == {f"r{n}" for n in range(10, 30)} - {"r15"}

    async def test_the_default_step_is_ten(self, store: Store) -> None:
        """The whole corpus is never loaded by accident."""
        await write_many(store, 30)

        assert len(await store.missing(NOTES)) == 10

    async def test_a_recount_finds_nothing_to_mend(self, store: Store) -> None:
        """The list of missing records is what a scan of all records finds."""
        await write_many(store, 25)
        await store.settle([done(lease) for lease in await take(store, limit=10)], now=NOON)
        mended, after = 0, None
        while True:
            some, after = await store.recount(NOTES, after=after, limit=7)
            mended += some
            if after is None:
                break

        assert mended == 0

    async def test_finishing_has_nothing_left_to_do(self, store: Store) -> None:
        """Drops and recompositions are finished when they return."""
        await store.declare(declaration("rules", text_from=("title",)), now=NOON)
        await store.put("rules", [NewRecord(id=RecordId("a"), attributes={"title": "T", "b": "B"})], now=NOON)
        await store.declare(declaration("rules", text_from=("title", "b")), now=NOON)
        await store.drop(NOTES, now=NOON)

        assert await store.finish(now=NOON) == 0

    async def test_a_cut_text_is_marked_and_counted(self, store: Store) -> None:
        """It is visible which vectors cover only the beginning of a text."""
        await write(store, "A")
        lease = await take_one(store)
        outcome = done(lease)
        await store.settle([type(outcome)(lease, outcome.vector, truncated=True)], now=NOON)

        assert (await read(store)).truncated
        assert (await store.counts())[NOTES].truncated == 1

    async def test_freshness_says_how_far_behind(self, store: Store) -> None:
        """Coverage, pending, and how long the oldest has waited."""
        await write_many(store, 4)
        await store.settle([done(lease) for lease in await take(store, limit=3)], now=NOON)

        fresh = await store.freshness(NOTES, now=NOON)

        assert (fresh.coverage, fresh.pending) == (0.75, 1)
        assert fresh.oldest_pending is not None
