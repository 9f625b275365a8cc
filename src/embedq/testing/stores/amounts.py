"""How much a store reads and returns at once."""

import pytest

from embedq.errors import TooLarge
from embedq.model import EmbeddingStatus, NewRecord, Query, RecordId
from embedq.policy.filters import read_filter
from embedq.ports import Store
from embedq.testing.stores.stage import NOON, NOTES, Stage, embed_all, vector_of

KILOBYTE = "ü" * 512  # two bytes each


async def put_long(store: Store, count: int) -> list[RecordId]:
    """Write records of one kilobyte each."""
    ids = [RecordId(f"r{n:02}") for n in range(count)]
    await store.put(NOTES, [NewRecord(id=id_, text=KILOBYTE, attributes={"a": 1}) for id_ in ids], now=NOON)
    return ids


class AmountFacts(Stage):
    """What limits an answer."""

    async def test_a_thousand_filter_values_are_as_good_as_one(self, store: Store) -> None:
        """As many values as a client may send, in as many filters, find what they name."""
        records = [
            NewRecord(id=RecordId(f"r{n}"), text=f"text {n}", attributes={"n": n, "s": f"{n}"}) for n in range(9)
        ]
        await store.put(NOTES, records, now=NOON)
        await embed_all(store)
        numbers = [5, 7, *range(1000, 1998)]
        query = Query(filter=read_filter({"n": numbers, "s": [f"{n}" for n in numbers]}))

        by_vector = await store.search_vector(NOTES, vector_of("text 1"), query)
        by_words = await store.search_words(NOTES, "text", query)

        assert {hit.id for hit in by_vector} == {hit.id for hit in by_words} == {"r5", "r7"}

    async def test_sixty_four_filter_names_all_hold(self, store: Store) -> None:
        """As many names as a client may send are all checked."""
        names = {f"a{n}": n for n in range(64)}
        changed = names | {"a63": "other"}
        records = [NewRecord(id=RecordId(i), text="text", attributes=a) for i, a in (("a", names), ("b", changed))]
        await store.put(NOTES, records, now=NOON)
        query = Query(filter=read_filter({name: [value, *range(1000, 1050)] for name, value in names.items()}))

        assert [hit.id for hit in await store.search_words(NOTES, "text", query)] == ["a"]

    async def test_bare_hits_are_the_same_hits_without_their_texts(self, store: Store) -> None:
        """A ranking can be requested without reading what it ranks."""
        await put_long(store, 3)
        await embed_all(store)
        for full, bare in (
            [await store.search_vector(NOTES, vector_of(KILOBYTE), Query(bare=bare)) for bare in (False, True)],
            [await store.search_words(NOTES, KILOBYTE, Query(bare=bare)) for bare in (False, True)],
        ):
            assert {(hit.id, hit.score, hit.stale) for hit in full} == {(hit.id, hit.score, hit.stale) for hit in bare}
            assert {(hit.text, len(hit.attributes)) for hit in full} == {(KILOBYTE, 1)}
            assert {(hit.text, len(hit.attributes)) for hit in bare} == {("", 0)}

    async def test_records_that_are_too_much_together_are_refused(self, store: Store) -> None:
        """Several records beyond a limit of bytes are not read; a single one always is."""
        ids = await put_long(store, 4)

        assert len(await store.get(NOTES, ids, max_bytes=5000)) == 4
        assert len(await store.get(NOTES, ids[:1], max_bytes=10)) == 1
        with pytest.raises(TooLarge, match="EMBEDQ_MAX_ANSWER_BYTES"):
            await store.get(NOTES, ids, max_bytes=3000)

    @pytest.mark.parametrize("status", [None, EmbeddingStatus.PENDING, EmbeddingStatus.EMBEDDED])
    async def test_a_page_ends_at_its_bytes_and_the_list_goes_on(
        self, store: Store, status: EmbeddingStatus | None
    ) -> None:
        """Long records make short pages; together they are the whole list, each record once."""
        ids = await put_long(store, 7)
        if status is EmbeddingStatus.EMBEDDED:
            await embed_all(store)
        pages, cursor = list[list[str]](), None
        while not pages or cursor is not None:
            page = await store.records(NOTES, status=status, cursor=cursor, max_bytes=3000)
            pages.append([record.id for record in page.items])
            cursor = page.next_cursor

        assert [id_ for page in pages for id_ in page] == ids
        assert [len(page) for page in pages if page] == [3, 3, 1]
