"""Texts that are hard on PostgreSQL: taken and embedded, or refused with a reason; never half-written."""

import pytest

from embedq.errors import Invalid, TooLarge
from embedq.model import JobFilter, RecordId
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import NOTES, embed_all, write

MIB = 1 << 20


def rare(number: int) -> str:
    """Make a word of letters that take four bytes each."""
    return "".join(chr(0x20000 + part % 40_000) for part in (number, number // 200 + 13, number * 31 + 7))


HARD = {
    "a megabyte of different words": " ".join(f"w{number:06d}" for number in range(MIB // 8))[:MIB],
    "different words of long letters": " ".join(map(rare, range(50_000))),
    "compound words, which count twice": " ".join(
        f"{rare(3 * n)}-{rare(3 * n + 1)}-{rare(3 * n + 2)}" for n in range(26_000)
    ),
    "a word over PostgreSQL's limit": "x" * 2_047 + " " + "y" * 300_000,
    "addresses": " ".join(f"https://h{number:x}.example/p{number:x}?q" for number in range(20_000)),
    "code points that are no characters": "a\uffff b\ufffe \U0010ffff",
    "control characters": "\x01\x1b[0m\x7f\u2028\u202e",
    "quotes and escapes": "'; DROP TABLE embedq.record; -- \\x00 $$ %s {}",
    "combining marks": "e" + "\u0301" * 50_000,
}


@pytest.mark.parametrize("text", HARD.values(), ids=HARD)
async def test_a_hard_text_is_taken_as_it_is_and_embedded(store: PostgresStore, text: str) -> None:
    """What comes back is what was written, to the last character, and it gets its vector."""
    await write(store, text)

    assert await embed_all(store) == 1
    [found] = await store.get(NOTES, [RecordId("a")])
    assert found.text == text
    assert (await store.counts())[NOTES].missing == 0


async def test_a_text_with_nul_is_refused_and_nothing_is_written(store: PostgresStore) -> None:
    """PostgreSQL has no way to keep NUL: the caller is told."""
    with pytest.raises(Invalid, match="NUL"):
        await write(store, "a\0b")

    assert await store.get(NOTES, [RecordId("a")]) == []
    assert not (await store.jobs(JobFilter())).items


async def test_what_is_over_a_limit_of_postgresql_is_refused_for_good(store: PostgresStore) -> None:
    """More words than its word index can hold: trying again would not help, so the caller is told to shorten it."""
    words = " ".join(map(rare, range(100_000)))

    with pytest.raises(TooLarge, match="shorter"):
        await store._database.fetch("SELECT to_tsvector('simple', $1)", words)
