"""The threads of a store outlive what goes wrong around them."""

from pathlib import Path

import pytest
from tests.stores.sqlite import older

from embedq.errors import Invalid, StoreUnusable
from embedq.model import EmbedderName, JobFilter, JobStatus, NewRecord, Query, RecordId
from embedq.policy.filters import read_filter
from embedq.stores.sqlite import SqliteStore
from embedq.telemetry import Event, Facts, Telemetry
from embedq.testing.stores.stage import (
    DIMENSIONS,
    NOON,
    NOTES,
    declaration,
    done,
    embed_all,
    failed,
    read,
    take,
    take_one,
    vector_of,
    write,
)


async def opened(path: Path, telemetry: Telemetry | None = None) -> SqliteStore:
    store = await SqliteStore.open(path / "embedq.db", telemetry=telemetry)
    collection = await store.declare(declaration(), now=NOON)
    await store.learn(collection.space.id, DIMENSIONS)
    return store


async def test_a_log_that_fails_does_not_stop_the_writer(tmp_path: Path) -> None:
    """What was committed is answered, and the next write goes through, though nobody can be told."""

    def broken(event: Event, _: str, __: Facts) -> None:
        if event is Event.STORED:
            raise OSError("no space left for the log")

    store = await opened(tmp_path, Telemetry(broken))
    await write(store, "A")

    settled = await store.settle([done(await take_one(store))], now=NOON)
    await write(store, "B")

    assert len(settled.jobs) == 1
    assert (await read(store)).text == "B"
    await store.close()


async def test_a_follower_that_fails_does_not_stop_the_watcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watcher says what it met, and goes on waking whoever waits for work."""
    said: list[Facts] = []
    store = await opened(tmp_path, Telemetry(lambda event, _, facts: said.append({"event": event, **facts})))
    other = await opened(tmp_path)
    monkeypatch.setattr(store._file.follower, "poke", _fail)

    for text in "ABC":
        await take(store)
        await write(other, text)
        await store._file.wake.wait(60)

    assert store._file._watcher._thread.is_alive()
    assert any(facts["event"] is Event.STORE_TROUBLE and facts.get("act") == "watch" for facts in said)
    await store.close()
    await other.close()


def _fail() -> None:
    raise MemoryError("nothing left to follow with")


async def test_a_dead_letter_of_another_space_is_not_revived(tmp_path: Path) -> None:
    """A collection that changed its embedder while it was empty does not wake what the old one gave up on."""
    store = await opened(tmp_path)
    await store.declare(declaration("others"), now=NOON)
    await write(store, "A")
    await store.settle([failed(await take_one(store))], now=NOON)
    await store.delete(NOTES, [RecordId("a")], now=NOON)
    await store.declare(declaration(embedder=EmbedderName(provider="fake", model="new")), now=NOON)
    await write(store, "A")

    assert await store.revive(JobFilter(), now=NOON) == 0

    await embed_all(store)
    assert (await read(store)).vector is not None
    await store.close()


async def test_numbers_beyond_64_bits_are_no_surprise(tmp_path: Path) -> None:
    """A filter is compared with them, a cursor refuses them."""
    store = await opened(tmp_path)
    await store.put(NOTES, [NewRecord(id=RecordId("a"), text="A", attributes={"n": 2**70})], now=NOON)
    await embed_all(store)

    hits = await store.search_vector(NOTES, vector_of("A"), Query(filter=read_filter({"n": {"gt": 2**62}})))

    assert [hit.id for hit in hits] == ["a"]
    huge = "9" * 30
    for act in (
        store.jobs(JobFilter(), cursor=huge),
        store.jobs(JobFilter(status=JobStatus.PENDING), cursor=f"1.2.{huge}"),
        store.records(NOTES, status="pending", cursor=huge),
        store.missing(NOTES, after=huge),
    ):
        with pytest.raises(Invalid):
            await act
    await store.close()


async def test_a_file_of_an_older_version_is_taken_over(tmp_path: Path) -> None:
    """What the first version of the schema holds is there after the upgrade, and can be leased, purged and settled."""
    older.make(tmp_path / "embedq.db", 1, {NOTES: {"a": "A", "b": "B"}})

    store = await opened(tmp_path)
    lease, kept = await take(store)
    gone = await store.delete(NOTES, [RecordId("a")], purge=True, now=NOON)
    settled = await store.settle([done(lease), done(kept)], now=NOON)

    assert (lease.text, list(gone), settled.jobs) == ("A", ["a"], {kept.job_id})
    assert set(await store.known(lease.space, [lease.hash, kept.hash])) == {kept.hash}
    await store.close()


async def test_a_deleted_file_is_not_made_anew_by_a_read(tmp_path: Path) -> None:
    """Where a database was removed, no empty one appears."""
    store = await opened(tmp_path)
    path = tmp_path / "embedq.db"
    path.unlink()

    with pytest.raises(StoreUnusable):
        await write(store, "A")

    assert not path.exists()
    await store.close()
