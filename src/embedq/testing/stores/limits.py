"""A provider's limit applies to its own space, and no other."""

from datetime import timedelta

from embedq.embedding import Spending
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

    async def test_a_space_that_no_collection_has_has_no_budget(self, store: Store) -> None:
        """There is nothing to share it with, and nowhere to note it."""
        nobodys = SpaceId("nobody:has@0/1")

        waits = [await store.take(nobodys, ONE_A_MINUTE, now=NOON) for _ in range(2)]

        assert waits == [timedelta(0), timedelta(0)]

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

    async def test_a_request_that_was_granted_sets_no_hold(self, store: Store) -> None:
        """As long as the budget has refused no request, its space is leased."""
        limited = await space_of(store)
        await write(store, "A")

        await store.take(limited, ONE_A_MINUTE, now=NOON)

        assert len((await _lease(store, [limited])).leases) == 1

    async def test_tokens_are_bound_beside_requests(self, store: Store, other: Store) -> None:
        """No window exceeds the budget's tokens, though there are requests left."""
        space, budget = await space_of(store), Budget(requests=100, tokens=50, interval=MINUTE)
        assert await store.take(space, budget, Spending(tokens=30), now=NOON) == timedelta(0)
        assert await other.take(space, budget, Spending(tokens=20), now=NOON + 10 * SECOND) == timedelta(0)

        first = await store.take(space, budget, Spending(tokens=30), now=NOON + 20 * SECOND)
        due = await other.take(space, budget, Spending(tokens=30), now=NOON + MINUTE)
        more = await store.take(space, budget, Spending(tokens=1), now=NOON + MINUTE)

        assert (first, due, more) == (40 * SECOND, timedelta(0), 10 * SECOND)

    async def test_a_take_waits_for_as_much_room_as_it_needs(self, store: Store) -> None:
        """What needs more waits for more to leave the window, be it requests or tokens."""
        space, budget = await space_of(store), Budget(requests=10, tokens=50, interval=MINUTE)
        for second in range(5):
            await store.take(space, budget, Spending(requests=2, tokens=10), now=NOON + second * SECOND)
        at = NOON + 30 * SECOND

        by_tokens = await store.take(space, budget, Spending(requests=1, tokens=25), now=at)
        await store.resume()
        by_requests = await store.take(space, budget, Spending(requests=7, tokens=1), now=at)

        assert (by_tokens, by_requests) == (32 * SECOND, 33 * SECOND)

    async def test_requests_alone_or_tokens_alone_may_be_bound(self, store: Store) -> None:
        """A limit that is not set does not apply."""
        space = await space_of(store)
        tokens_only = Budget(requests=None, tokens=5, interval=MINUTE)
        requests_only = Budget(requests=4, interval=MINUTE)

        free = [await store.take(space, tokens_only, Spending(tokens=1), now=NOON) for _ in range(3)]
        large = await store.take(space, requests_only, Spending(tokens=10**12), now=NOON)
        fifth = await store.take(space, requests_only, now=NOON)

        assert ([*free, large], fifth) == ([timedelta(0)] * 4, MINUTE)

    async def test_what_is_larger_than_the_budget_goes_alone(self, store: Store) -> None:
        """A call larger than the budget goes when the window is empty, and nothing goes beside it."""
        space, budget = await space_of(store), Budget(requests=9, tokens=50, interval=MINUTE)
        assert await store.take(space, budget, Spending(tokens=70), now=NOON) == timedelta(0)

        beside = await store.take(space, budget, Spending(tokens=1), now=NOON)
        again = await store.take(space, budget, Spending(tokens=70), now=NOON + MINUTE)

        assert (beside, again) == (MINUTE, timedelta(0))

    async def test_the_budgets_state_has_requests_and_tokens(self, store: Store) -> None:
        """The window is reported in both, with the hold that a refusal has set."""
        space, budget = await space_of(store), Budget(requests=9, tokens=50, interval=MINUTE)
        await store.take(space, budget, Spending(requests=2, tokens=30), now=NOON)
        await store.take(space, budget, Spending(tokens=20), now=NOON)
        await store.take(space, budget, Spending(tokens=1), now=NOON)

        seen = (await store.budgets(now=NOON))[space]

        assert (seen["requests"], seen["tokens"], seen["held_seconds"]) == (3, 50, 60)

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
    """Put a record into a collection with a separate space."""
    collection = await store.declare(declaration(FREE, embedder=EmbedderName(provider="fake", model="free")), now=NOON)
    await store.put(FREE, [NewRecord(id=RecordId("f"), text="F")], now=NOON)
    return collection.space.id


async def _lease(store: Store, spaces: list[SpaceId], *, seconds: int = 0, limit: int = 10) -> Leased:
    ask = Ask(worker=WorkerId("w1"), spaces=spaces, limit=limit, span=LEASE)
    return await store.lease(ask, now=NOON + seconds * SECOND)
