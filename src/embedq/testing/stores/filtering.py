"""Filters: which records a search, a list and a deletion are about."""

from random import Random

import pytest

from embedq.model import NewRecord, Query, RecordId
from embedq.policy.filters import read_filter
from embedq.policy.matching import matches
from embedq.ports import Store
from embedq.testing.stores import random_filters
from embedq.testing.stores.filter_cases import ATTRIBUTES, CASES
from embedq.testing.stores.stage import NOON, NOTES, Stage, embed_all, vector_of


async def put_all(store: Store) -> None:
    """Write the records of the table."""
    records = [
        NewRecord(id=RecordId(name), text=f"text {name}", attributes=value) for name, value in ATTRIBUTES.items()
    ]
    await store.put(NOTES, records, now=NOON)


class FilterFacts(Stage):
    """What a filter allows."""

    async def test_a_filter_means_what_it_says(self, store: Store) -> None:
        """By words and by vector, each filter of the table finds what stands beside it."""
        await put_all(store)
        await embed_all(store)
        expected = {str(wanted): found for wanted, found in CASES}
        by_words, by_vector = dict[str, set[str]](), dict[str, set[str]]()

        for wanted, _ in CASES:
            query = Query(k=100, filter=read_filter(wanted))
            by_words[str(wanted)] = {hit.id for hit in await store.search_words(NOTES, "text", query)}
            by_vector[str(wanted)] = {hit.id for hit in await store.search_vector(NOTES, vector_of("a"), query)}

        assert by_words == expected
        assert by_vector == expected

    @pytest.mark.parametrize("seed", range(3))
    async def test_a_filter_by_chance_allows_what_the_rule_says(self, store: Store, seed: int) -> None:
        """`policy.matching` says what a filter means, so that all stores agree."""
        chance = Random(seed)  # noqa: S311 the same ones each time
        records = {f"r{n}": random_filters.attributes(chance) for n in range(100)}
        await store.put(
            NOTES, [NewRecord(id=RecordId(name), text="text", attributes=a) for name, a in records.items()], now=NOON
        )
        differ = dict[str, set[str]]()

        for _ in range(200):
            drawn = random_filters.wanted(chance)
            asked = read_filter(drawn)
            assert asked is not None
            hits = await store.search_words(NOTES, "text", Query(k=1000, filter=asked))
            allowed = {name for name, attributes in records.items() if matches(asked, attributes)}
            if found := {hit.id for hit in hits} ^ allowed:
                differ[str(drawn)] = {f"{records[name]}" for name in found}

        assert differ == {}
