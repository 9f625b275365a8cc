"""A caller's mistake is reported as the caller's: not as a database failure, and nothing is retried."""

from collections.abc import Awaitable, Callable

import pytest

from embedq.errors import Invalid, NotFound, TooLarge
from embedq.model import JobFilter, JobId, Query, RecordId
from embedq.ports import Store
from embedq.testing.stores.stage import NOTES, Stage, write

LONE = "\ud800"  # half of a surrogate pair: not valid in UTF-8

MISTAKES: dict[str, Callable[[Store], Awaitable[object]]] = {
    "a surrogate in the words": lambda store: store.search_words(NOTES, f"a {LONE}", Query()),
    "a surrogate as tenant": lambda store: store.search_words(NOTES, "a", Query(tenant=LONE)),
    "a surrogate as id": lambda store: store.get(NOTES, [RecordId(LONE)]),
    "a surrogate as cursor": lambda store: store.records(NOTES, cursor=LONE),
    "a surrogate as collection": lambda store: store.get(LONE, [RecordId("a")]),
    "a surrogate as job": lambda store: store.job(JobId(LONE)),
    "NUL in an id": lambda store: store.get(NOTES, [RecordId("a\0b")]),
    "NUL in a cursor": lambda store: store.records(NOTES, cursor="a\0b"),
    "too many hits": lambda store: store.search_words(NOTES, "a", Query(k=2**70)),
    "too long a list": lambda store: store.jobs(JobFilter(), limit=2**70),
    "a cursor of another list": lambda store: store.jobs(JobFilter(), cursor="x.y"),
    "a cursor beyond 64 bits": lambda store: store.jobs(JobFilter(), cursor=str(2**64)),
}


class MistakeFacts(Stage):
    """How a store answers a caller's mistakes."""

    @pytest.mark.parametrize("mistake", MISTAKES)
    async def test_a_callers_mistake_is_no_trouble_of_the_database(self, store: Store, mistake: str) -> None:
        """It is answered, or refused as what it is: never as a database that cannot be reached or used."""
        await write(store, "A")

        try:
            await MISTAKES[mistake](store)
        except (Invalid, NotFound, TooLarge) as refused:
            assert str(refused)  # noqa: PT017 an answer is fine, too

        await store.check()
