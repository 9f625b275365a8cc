"""Filters: which records a search, a list and a deletion are about."""

from dataclasses import replace
from random import Random

import pytest

from embedq.conditions import OneOf, Selection
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

    async def test_a_list_is_narrowed_by_a_filter(self, store: Store) -> None:
        """Whatever the status, page by page, and beside a tenant."""
        await put_all(store)
        wanted = read_filter({"author.name": {"exists": True}})
        first = await store.records(NOTES, wanted=wanted, limit=1)
        rest = await store.records(NOTES, wanted=wanted, limit=9, cursor=first.next_cursor)

        assert [record.id for record in (*first.items, *rest.items)] == ["author", "authors"]
        for status, found in (("pending", ["author", "authors"]), ("failed", []), ("embedded", [])):
            assert [one.id for one in (await store.records(NOTES, status=status, wanted=wanted)).items] == found
        assert (await store.records(NOTES, tenant="other", wanted=wanted)).items == []

    async def test_a_deletion_is_narrowed_by_a_filter(self, store: Store) -> None:
        """Exactly what it allows is gone, step by step, with its jobs; the same again finds nothing."""
        await put_all(store)
        wanted = read_filter({"n": {"exists": True}})
        assert wanted is not None
        which = Selection(filter=wanted, limit=4)
        gone = list[str]()
        while True:
            page = await store.delete_where(NOTES, which, now=NOON)
            gone += page.items
            if page.next_cursor is None:
                break
            which = replace(which, after=page.next_cursor)

        allowed = {name for name, attributes in ATTRIBUTES.items() if "n" in attributes}
        left = await store.records(NOTES, limit=100)
        assert (set(gone), len(gone)) == (allowed, len(allowed))
        assert {record.id for record in left.items} == ATTRIBUTES.keys() - allowed
        assert (await store.counts())[NOTES].pending == len(left.items)
        assert (await store.delete_where(NOTES, replace(which, after=""), now=NOON)).items == []

    async def test_a_deletion_by_a_filter_is_a_tenants_own(self, store: Store) -> None:
        """Records of others stay; and what is erased are also those that were deleted before."""
        for tenant in ("one", "two"):
            record = NewRecord(id=RecordId(tenant), text=tenant, attributes={"a": 1}, tenant=tenant)
            await store.put(NOTES, [record], now=NOON)
        which = Selection(filter=OneOf(("a",), (1,)), tenant="one")
        for purge, found in ((False, ["one"]), (False, []), (True, ["one"]), (True, [])):
            assert list((await store.delete_where(NOTES, which, purge=purge, now=NOON)).items) == found

        assert [record.id for record in (await store.records(NOTES)).items] == ["two"]
