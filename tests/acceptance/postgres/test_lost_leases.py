"""Bad days: the database goes back in time under workers that hold leases of a history that is no more."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.load import check_vectors
from tests.acceptance.processes import Api, Place
from tests.acceptance.waiting import until

from embedq.model import Ask, Lease, WorkerId
from embedq.stores.postgres import PostgresStore
from embedq.testing.postgres import PostgresServer
from embedq.testing.postgres.binaries import run
from embedq.testing.stores.stage import (
    DIMENSIONS,
    LEASE,
    declaration,
    done,
    embed_all,
    has_vector_of,
    space_of,
    take,
    write_many,
)

RECORDS = 80
CUT_OFF = "ALTER SYSTEM SET primary_conninfo = ''; SELECT pg_reload_conf()"
WRITTEN, REPLAYED = "SELECT pg_current_wal_lsn()", "SELECT pg_last_wal_replay_lsn()"
FOLLOWED = "SELECT count(*) FROM pg_stat_replication"
SLOW = {
    "EMBEDQ_FAKE_FAULTS": "latency=0.4",
    "EMBEDQ_BATCH_SIZE": 5,
    "EMBEDQ_LEASE_SECONDS": 10,
    "EMBEDQ_HEARTBEAT_SECONDS": 2,
    "EMBED_JOB_RECOVERY_INTERVAL": 1000,
}


@pytest.fixture
def standby(server: PostgresServer) -> Iterator[PostgresServer]:
    """A standby that nobody waits for: it may lack what was committed last."""
    made = PostgresServer.standby_of(server)
    yield made
    made.stop(immediate=True)


async def test_a_lease_that_the_standby_never_heard_of_settles_nothing(
    server: PostgresServer, standby: PostgresServer
) -> None:
    """Its token is another worker's on the new primary: no vector goes to the other's records, of one or of a batch."""
    hosts = f"127.0.0.1:{server.port},127.0.0.1:{standby.port}"
    first = await PostgresStore.open(f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write")
    collection = await first.declare(declaration())
    await first.learn(collection.space.id, DIMENSIONS)
    await write_many(first, RECORDS, at=None)
    until(lambda: server.query(WRITTEN) == standby.query(REPLAYED), "the standby to have it all")
    for words in CUT_OFF.split("; "):
        standby.query(words)
    until(lambda: server.query(FOLLOWED) == "0", "the standby to be cut off")
    lost = {lease.token: lease for _ in range(RECORDS // 2) for lease in await take(first, "w1", at=None, limit=1)}

    server.kill()
    standby.promote()

    second = await PostgresStore.open(standby.url())
    theirs = await take(second, "w2", at=None, limit=3)  # from now on each token has another record than before
    theirs += [lease for _ in range(RECORDS) for lease in await take(second, "w2", at=None, limit=1)]
    met = [(lost[lease.token], lease) for lease in theirs if lease.token in lost]
    assert any(old.record_id != new.record_id for old, new in met), "no token came again: the test proves nothing"
    for old, _ in met:
        assert await settled(first, old) == 0
    assert [await settled(second, lease) for lease in theirs] == [1] * len(theirs)
    await second.rescue()
    await embed_all(second)

    texts = {f"r{n}": f"text r {n}" for n in range(RECORDS)}
    assert [name for name, text in texts.items() if not await has_vector_of(second, text, name)] == []
    assert await second.misplaced() == []
    await first.close()
    await second.close()


async def settled(store: PostgresStore, lease: Lease) -> int:
    """Settle a batch of one as workers do, with the next one asked for; say how many jobs were ours."""
    ask = Ask(worker=WorkerId("w3"), spaces=[await space_of(store)], limit=1, span=LEASE)
    answer = await store.settle([done(lease)], then=ask)
    await store.settle([], then=None)
    return len(answer.jobs)


async def test_a_schema_that_is_restored_under_live_workers_has_its_own_vectors(
    own_place: Place, server: PostgresServer
) -> None:
    """Dropped and restored from a dump while workers hold leases: they go on, and every vector is its own text's."""
    api = own_place.serve()
    workers = [own_place.work(**SLOW), own_place.work(**SLOW)]
    api.put(*({"id": f"r{n}", "text": f"text of {n}"} for n in range(40)))
    until(lambda: api.counts()["completed"] >= 5, "some work to be done")
    dump(server, own_place.folder / "dump.sql")
    api.put(*({"id": f"late{n}", "text": f"later text of {n}"} for n in range(40)))
    until(lambda: api.counts()["processing"] > 0, "leases that the dump does not know")

    server.query("DROP SCHEMA embedq CASCADE")
    restore(server, own_place.folder / "dump.sql")
    api.act("resume")
    api.put(*({"id": f"new{n}", "text": f"newer text of {n}"} for n in range(40)))

    api.embedded(80, patience=60)
    await check_all(api, own_place)
    assert all(worker.popen.poll() is None for worker in workers)


async def check_all(api: Api, place: Place) -> None:
    """Check that each record has its own vector, and that each job is where it should be."""
    names = [f"r{n}" for n in range(40)] + [f"new{n}" for n in range(40)]
    await check_vectors({name: api.record(name) for name in names})
    store = await PostgresStore.open(place.environment["EMBEDQ_URL"])
    assert await store.misplaced() == []
    await store.close()


def dump(server: PostgresServer, path: Path) -> None:
    """Write the schema as it is now."""
    path.write_text(run([server.binaries / "pg_dump", "--schema=embedq", server.url()]))


def restore(server: PostgresServer, path: Path) -> None:
    """Bring the schema back."""
    run(
        [server.binaries / "psql", "--quiet", "--set=ON_ERROR_STOP=1", "--single-transaction", "-f", path, server.url()]
    )
