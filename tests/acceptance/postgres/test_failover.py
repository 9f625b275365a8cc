"""Bad days: the primary is lost under load, and its standby takes over."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.load import UNREACHED, Writer
from tests.acceptance.postgres.truth import check_truth
from tests.acceptance.processes import Place
from tests.acceptance.waiting import until

from embedq.testing.postgres import PostgresServer

WORK = {"EMBEDQ_FAKE_FAULTS": "latency=0.03", "EMBEDQ_BATCH_SIZE": 20}


@pytest.fixture
def standby(server: PostgresServer) -> Iterator[PostgresServer]:
    made = PostgresServer.standby_of(server, synchronous=True)
    yield made
    made.stop(immediate=True)


@pytest.fixture
def place(tmp_path: Path, server: PostgresServer, standby: PostgresServer) -> Iterator[Place]:
    hosts = f"127.0.0.1:{server.port},127.0.0.1:{standby.port}"
    made = Place(tmp_path, f"postgresql://postgres@{hosts}/postgres?target_session_attrs=read-write")
    yield made
    made.close()


async def test_everybody_follows_a_promoted_standby(
    place: Place, server: PostgresServer, standby: PostgresServer
) -> None:
    """The primary dies under load and the standby is promoted: what was acknowledged is there, and work goes on."""
    api = place.serve()
    workers = [place.work(**WORK), place.work(**WORK)]
    writers = [Writer(api, ids=150, name=name, bears={UNREACHED}) for name in "ab"]
    for writer in writers:
        writer.writes_on(100)

    server.kill()
    before = {name: text for writer in writers for name, text in dict(writer.acknowledged).items()}
    standby.promote()

    for writer in writers:
        writer.writes_on()
        writer.finish()
    assert before.keys() <= {name for writer in writers for name in writer.acknowledged}
    await check_truth(place, api, *writers, url=standby.url())
    assert all(worker.popen.poll() is None for worker in workers)


async def test_a_primary_that_takes_no_more_writes_is_left(
    place: Place, server: PostgresServer, standby: PostgresServer
) -> None:
    """Roles are switched with both servers up and no session ended: nobody stays with the one that is read-only now."""
    api = place.serve()
    place.work(**WORK)
    writer = Writer(api, bears={UNREACHED})
    writer.writes_on(50)

    server.query("ALTER SYSTEM SET default_transaction_read_only = on")
    server.query("SELECT pg_reload_conf()")
    until(lambda: writer.refused, "a write that was refused")
    standby.promote()

    writer.writes_on()
    writer.finish()
    await check_truth(place, api, writer, url=standby.url())
