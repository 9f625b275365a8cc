"""A file that was restored: numbers come again, and leases of before the restore may still bring their answers."""

import sqlite3
from pathlib import Path

from embedq.model import Lease, RecordId
from embedq.stores.sqlite import SqliteStore
from embedq.testing.stores.stage import DIMENSIONS, NOON, NOTES, declaration, done, take_one, write


async def opened(path: Path) -> SqliteStore:
    """Open a store with one collection, `notes`."""
    store = await SqliteStore.open(path)
    collection = await store.declare(declaration(), now=NOON)
    await store.learn(collection.space.id, DIMENSIONS)
    return store


def copy(source: Path, target: Path) -> None:
    """Copy a database as SQLite itself does, over whatever is there."""
    with sqlite3.connect(source) as here, sqlite3.connect(target) as there:
        here.backup(there)
    here.close()
    there.close()


async def lease_of_before(path: Path, *, with_record: bool) -> Lease:
    """Put a record and lease its job, then go back to a backup of before the lease, with the record or without it."""
    store, backup = await opened(path), path.with_suffix(".backup")
    if with_record:
        await write(store, "A")
    copy(path, backup)
    if not with_record:
        await write(store, "A")
    lease = await take_one(store)
    await store.close()
    copy(backup, path)
    return lease


async def test_a_lease_of_a_lost_history_brings_what_was_paid_for(tmp_path: Path) -> None:
    """Nobody has heard of it here, and nothing was removed: its vector is kept for reuse."""
    path = tmp_path / "embedq.db"
    lease = await lease_of_before(path, with_record=True)
    store = await opened(path)

    settled = await store.settle([done(lease)], now=NOON)

    assert settled.jobs == frozenset()
    assert list(await store.known(lease.space, [lease.hash])) == [lease.hash]
    await store.close()


async def test_a_lease_of_a_lost_record_brings_nothing_of_what_was_erased(tmp_path: Path) -> None:
    """Its record's number is another's here, and was given to it anew before it was removed for good."""
    path = tmp_path / "embedq.db"
    lease = await lease_of_before(path, with_record=False)
    store = await opened(path)
    other = await write(store, "other", "b")
    await write(store, "A")
    await store.delete(NOTES, [RecordId("a")], purge=True, now=NOON)
    assert other.job_id == lease.job_id

    await store.settle([done(lease)], now=NOON)

    assert await store.known(lease.space, [lease.hash]) == {}
    await store.close()
