"""Records: put, patch, get, list, delete."""

import pytest

from embedq.errors import Conflict, Invalid, NotFound
from embedq.model import EmbeddingStatus, JobStatus, NewRecord, Patch, Priority, Query, Reason, RecordId
from embedq.ports import Store
from embedq.testing.stores.stage import (
    MINUTE,
    NOON,
    NOTES,
    SECOND,
    Stage,
    done,
    embed_all,
    failed,
    has_vector_of,
    job_of,
    read,
    take,
    take_one,
    vector_of,
    write,
    write_many,
)

ODD_IDS = ["a/b", "with space", "quote\"'", "emoji 🧵", "ünïcode", "%2F", "..", "a" * 512]


class CorpusFacts(Stage):
    """What a corpus keeps of its records."""

    async def test_a_record_is_read_as_it_was_put(self, store: Store) -> None:
        """Text, attributes and tenant are returned unchanged."""
        attributes = {"n": 1, "f": 0.5, "s": "ü 🧵", "l": [1, "a"], "o": {"x": None}, "b": True}
        record = NewRecord(id=RecordId("a"), text="A 🧵\nline", attributes=attributes, tenant="t")
        await store.put(NOTES, [record], now=NOON)

        [found] = await store.get(NOTES, [RecordId("a")])

        assert (found.text, found.attributes, found.tenant) == ("A 🧵\nline", attributes, "t")
        assert (found.created_at, found.embedding_status) == (NOON, EmbeddingStatus.PENDING)

    @pytest.mark.parametrize("id_", ODD_IDS)
    async def test_odd_ids_are_ids(self, store: Store, id_: str) -> None:
        """Slashes, spaces, quotes and emoji are part of an id like any other character."""
        await write(store, "A", id_)
        await embed_all(store)

        assert (await read(store, id_)).embedding_status is EmbeddingStatus.EMBEDDED
        assert await store.delete(NOTES, [RecordId(id_)], now=NOON) == [id_]

    async def test_receipts_come_in_order(self, store: Store) -> None:
        """New, changed and unchanged records in one put, each with its own receipt."""
        old = await write(store, "A", "a")
        await write(store, "B", "b")
        await embed_all(store)
        records = [
            NewRecord(id=RecordId("new"), text="N"),
            NewRecord(id=RecordId("b"), text="B2"),
            NewRecord(id=RecordId("a"), text="A"),
        ]

        receipts = await store.put(NOTES, records, now=NOON)

        assert [receipt.id for receipt in receipts] == ["new", "b", "a"]
        statuses = [receipt.embedding_status.value for receipt in receipts]
        assert statuses == ["pending", "pending", "embedded"]
        assert receipts[2].job_id == old.job_id

    async def test_a_bad_record_keeps_the_others_out(self, store: Store) -> None:
        """All or none, and the bad one is named by its position."""
        records = [NewRecord(id=RecordId("good"), text="A"), NewRecord(id=RecordId("bad"), text="  ")]

        with pytest.raises(Invalid) as refused:
            await store.put(NOTES, records, now=NOON)

        assert set(refused.value.problems) == {1}
        assert await store.get(NOTES, [RecordId("good")]) == []
        assert (await store.counts())[NOTES].records == 0

    async def test_a_repeated_id_counts_once(self, store: Store) -> None:
        """Deleting, reading or arming an id twice in one call is doing it once; putting it twice is refused."""
        await write(store, "A")
        twice = [RecordId("a"), RecordId("a")]

        with pytest.raises(Invalid) as refused:
            await store.put(NOTES, [NewRecord(id=id_, text="B") for id_ in twice], now=NOON)
        assert set(refused.value.problems) == {1}
        assert await store.reconcile(NOTES, twice, now=NOON) == 0
        assert len(await store.get(NOTES, twice)) == 1
        assert await store.delete(NOTES, twice, now=NOON) == ["a"]
        counts = (await store.counts())[NOTES]
        assert (counts.records, counts.pending, counts.cancelled) == (0, 0, 1)

    async def test_an_unknown_collection_is_refused(self, store: Store) -> None:
        """By every call."""
        nothing = [RecordId("a")]
        for act in (
            store.put("nowhere", [NewRecord(id=RecordId("a"), text="A")], now=NOON),
            store.get("nowhere", nothing),
            store.delete("nowhere", nothing, now=NOON),
            store.records("nowhere"),
            store.missing("nowhere"),
            store.enqueue("nowhere", nothing, now=NOON),
            store.patch("nowhere", RecordId("a"), Patch(text="B"), now=NOON),
            store.drop("nowhere"),
            store.freshness("nowhere"),
            store.show("nowhere", nothing),
            store.show("nowhere", []),
            store.search_words("nowhere", "A", Query()),
            store.search_words("nowhere", "", Query()),
            store.search_vector("nowhere", vector_of("A"), Query()),
        ):
            with pytest.raises(NotFound):
                await act

    async def test_another_tenants_id_is_refused(self, store: Store) -> None:
        """And nothing of the batch is written."""
        await store.put(NOTES, [NewRecord(id=RecordId("a"), text="A", tenant="one")], now=NOON)
        records = [
            NewRecord(id=RecordId("b"), text="B", tenant="two"),
            NewRecord(id=RecordId("a"), text="stolen", tenant="two"),
        ]

        with pytest.raises(Conflict):
            await store.put(NOTES, records, now=NOON)

        assert (await read(store)).text == "A"
        assert await store.get(NOTES, [RecordId("b")]) == []

    async def test_attributes_alone_queue_nothing(self, store: Store) -> None:
        """A change of attributes is written, and no job runs."""
        await write(store, "A")
        await embed_all(store)

        await store.put(NOTES, [NewRecord(id=RecordId("a"), text="A", attributes={"n": 2})], now=NOON + SECOND)

        assert (await read(store)).attributes == {"n": 2}
        assert await take(store) == []

    async def test_patch_merges_attributes(self, store: Store) -> None:
        """What is named changes, null removes, the rest stays, and no job runs."""
        record = NewRecord(id=RecordId("a"), text="A", attributes={"keep": 1, "change": 1, "drop": 1})
        await store.put(NOTES, [record], now=NOON)
        await embed_all(store)

        receipt = await store.patch(NOTES, RecordId("a"), Patch(attributes={"change": 2, "drop": None}), now=NOON)

        assert (await read(store)).attributes == {"keep": 1, "change": 2}
        assert receipt.embedding_status is EmbeddingStatus.EMBEDDED
        assert await take(store) == []

    async def test_patch_of_the_text_queues(self, store: Store) -> None:
        """Only a changed text is embedded again."""
        await write(store, "A")
        await embed_all(store)
        await store.patch(NOTES, RecordId("a"), Patch(text="A"), now=NOON)
        assert await take(store) == []

        await store.patch(NOTES, RecordId("a"), Patch(text="B"), now=NOON)

        assert (await take_one(store)).text == "B"

    async def test_patch_of_nothing_is_refused(self, store: Store) -> None:
        """A record that does not exist, is deleted, or is another tenant's."""
        await store.put(NOTES, [NewRecord(id=RecordId("theirs"), text="A", tenant="one")], now=NOON)
        await write(store, "A", "gone")
        await store.delete(NOTES, [RecordId("gone")], now=NOON)

        for id_ in ("never", "gone", "theirs"):
            with pytest.raises(NotFound):
                await store.patch(NOTES, RecordId(id_), Patch(text="B", tenant="two"), now=NOON)

    async def test_a_deleted_record_is_gone_at_once(self, store: Store) -> None:
        """It is not read, not listed, not embedded; its job is cancelled; deleting it again finds nothing."""
        receipt = await write(store, "A")

        deleted = await store.delete(NOTES, [RecordId("a"), RecordId("never")], now=NOON)

        assert deleted == ["a"]
        assert await store.get(NOTES, [RecordId("a")]) == []
        assert (await store.records(NOTES)).items == []
        job = await job_of(store, receipt)
        assert (job.status, job.reason) == (JobStatus.CANCELLED, Reason.RECORD_DELETED)
        assert await store.delete(NOTES, [RecordId("a")], now=NOON) == []

    async def test_a_deleted_record_comes_back_by_a_put(self, store: Store) -> None:
        """With its new text, and a job."""
        await write(store, "A")
        await store.delete(NOTES, [RecordId("a")], now=NOON)

        receipt = await write(store, "B")

        assert receipt.embedding_status is EmbeddingStatus.PENDING
        assert await embed_all(store) == 1
        assert await has_vector_of(store, "B")

    async def test_purge_removes_text_and_vector(self, store: Store) -> None:
        """Also of a record that was deleted before; a later put is like the first, for any tenant."""
        await write(store, "secret")
        lease = await take_one(store)
        await store.settle([done(lease)], now=NOON)
        await store.delete(NOTES, [RecordId("a")], now=NOON)

        assert await store.delete(NOTES, [RecordId("a")], purge=True, now=NOON) == ["a"]

        assert await store.known(lease.space, [lease.hash]) == {}
        assert await store.delete(NOTES, [RecordId("a")], purge=True, now=NOON) == []
        [receipt] = await store.put(NOTES, [NewRecord(id=RecordId("a"), text="secret", tenant="t")], now=NOON)
        assert receipt.embedding_status is EmbeddingStatus.PENDING
        assert await embed_all(store) == 1

    async def test_records_are_listed_by_status(self, store: Store) -> None:
        """Embedded, pending and failed records, page by page."""
        await write_many(store, 10)
        leases = await take(store, limit=6)
        await store.settle([done(lease) for lease in leases[:4]] + [failed(lease) for lease in leases[4:]], now=NOON)
        found: dict[str | None, int] = {}
        for status in (None, "embedded", "pending", "failed"):
            seen: set[str] = set()
            cursor = None
            while True:
                page = await store.records(NOTES, status=status, limit=3, cursor=cursor)
                assert all(status in (None, record.embedding_status) for record in page.items)
                seen |= {record.id for record in page.items}
                cursor = page.next_cursor
                if cursor is None:
                    break
            found[status] = len(seen)

        assert found == {None: 10, "embedded": 4, "pending": 4, "failed": 2}

    async def test_enqueue_by_hand_moves_a_pending_job_up(self, store: Store) -> None:
        """A job enqueued as urgent comes before the others; a lower priority changes nothing."""
        await write(store, "B", "b")
        receipt = await write(store, "A", "a", at=NOON + MINUTE)

        [again] = await store.enqueue(NOTES, [RecordId("a")], job_priority=Priority.URGENT, now=NOON + MINUTE)
        await store.enqueue(NOTES, [RecordId("a")], job_priority=Priority.LOW, now=NOON + MINUTE)

        assert again.job_id == receipt.job_id
        assert (await job_of(store, receipt)).priority is Priority.URGENT
        [first] = await take(store, at=NOON + MINUTE, limit=1)
        assert first.record_id == "a"

    async def test_enqueue_by_hand(self, store: Store) -> None:
        """Nothing to do for an embedded record, unless it is forced; an unknown one is refused."""
        await write(store, "A")
        await embed_all(store)

        [receipt] = await store.enqueue(NOTES, [RecordId("a")], now=NOON)
        assert receipt.embedding_status is EmbeddingStatus.EMBEDDED
        assert await take(store) == []

        await store.enqueue(NOTES, [RecordId("a")], force=True, now=NOON)
        assert (await take_one(store)).forced
        with pytest.raises(NotFound):
            await store.enqueue(NOTES, [RecordId("a"), RecordId("never")], force=True, now=NOON)
