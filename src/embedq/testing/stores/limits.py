"""A provider's limit binds its own space, and no other."""

from embedq.model import Ask, Budget, EmbedderName, Leased, NewRecord, RecordId, Released, SpaceId, WorkerId
from embedq.ports import Store
from embedq.testing.stores.stage import (
    LEASE,
    MINUTE,
    NOON,
    SECOND,
    Stage,
    declaration,
    space_of,
    write,
    write_many,
)

FREE = "free"
ONE_A_MINUTE = Budget(requests=1, interval=MINUTE)


class LimitFacts(Stage):
    """What an empty budget does to leasing."""

    async def test_an_empty_budget_keeps_its_space_from_being_leased(self, store: Store, other: Store) -> None:
        """Every process leases the jobs of another space, however much older those of the limited one are."""
        limited, free = await space_of(store), await _put_free(store)
        await write(store, "A", at=NOON - MINUTE)
        await store.take(limited, ONE_A_MINUTE, now=NOON)
        assert await store.take(limited, ONE_A_MINUTE, now=NOON) == MINUTE

        leased = await _lease(other, [limited, free])
        after = await _lease(store, [limited, free])

        assert [lease.space for lease in leased.leases] == [free]
        assert (after.leases, after.again_after) == ((), MINUTE)

    async def test_a_space_is_leased_again_when_its_budget_refills(self, store: Store) -> None:
        """Not a moment before, and then at once."""
        limited = await space_of(store)
        await write(store, "A")
        await store.take(limited, ONE_A_MINUTE, now=NOON)
        await store.take(limited, ONE_A_MINUTE, now=NOON + 20 * SECOND)

        early = await _lease(store, [limited], seconds=59)
        due = await _lease(store, [limited], seconds=60)

        assert (len(early.leases), early.again_after) == (0, SECOND)
        assert len(due.leases) == 1

    async def test_a_request_that_was_granted_holds_nobody(self, store: Store) -> None:
        """As long as the budget has not refused anybody, its space is leased."""
        limited = await space_of(store)
        await write(store, "A")

        await store.take(limited, ONE_A_MINUTE, now=NOON)

        assert len((await _lease(store, [limited])).leases) == 1

    async def test_a_batch_handed_back_comes_again_whole(self, store: Store) -> None:
        """The jobs of a batch that had to wait are leased again together, in their order, and uncharged."""
        limited = await space_of(store)
        await write_many(store, 4)
        batch = await _lease(store, [limited], limit=3)
        await store.take(limited, ONE_A_MINUTE, now=NOON)
        await store.take(limited, ONE_A_MINUTE, now=NOON)

        await store.settle([Released(lease) for lease in batch.leases], now=NOON)

        again = await _lease(store, [limited], seconds=60, limit=3)
        assert [lease.job_id for lease in again.leases] == [lease.job_id for lease in batch.leases]
        assert {(lease.attempts, lease.crashes) for lease in again.leases} == {(0, 0)}


async def _put_free(store: Store) -> SpaceId:
    """Put a record into a collection with a space of its own."""
    collection = await store.declare(declaration(FREE, embedder=EmbedderName(provider="fake", model="free")), now=NOON)
    await store.put(FREE, [NewRecord(id=RecordId("f"), text="F")], now=NOON)
    return collection.space.id


async def _lease(store: Store, spaces: list[SpaceId], *, seconds: int = 0, limit: int = 10) -> Leased:
    ask = Ask(worker=WorkerId("w1"), spaces=spaces, limit=limit, span=LEASE)
    return await store.lease(ask, now=NOON + seconds * SECOND)
