"""Bad days: the server goes away under load, and comes back."""

import time
from collections.abc import Callable

import pytest
from tests.acceptance.load import UNREACHED, Writer
from tests.acceptance.postgres.truth import check_truth
from tests.acceptance.processes import Place

from embedq.testing.postgres import PostgresServer

END_ALL = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'embedq'"
WORK = {"EMBEDQ_FAKE_FAULTS": "latency=0.03", "EMBEDQ_BATCH_SIZE": 20}


def restart_fast(server: PostgresServer) -> None:
    server.restart()


def kill_and_restart(server: PostgresServer) -> None:
    server.kill()
    server.start()


@pytest.mark.parametrize("mishap", [restart_fast, kill_and_restart])
async def test_work_goes_on_after_the_server_was_down(
    own_place: Place, server: PostgresServer, mishap: Callable[[PostgresServer], None]
) -> None:
    """Restarted or killed three times under load: all goes on by itself, nothing is lost or paid for twice."""
    api = own_place.serve()
    workers = [own_place.work(**WORK), own_place.work(**WORK)]
    writers = [Writer(api, ids=150, name=name, bears={UNREACHED}) for name in "ab"]

    for _ in range(3):
        for writer in writers:
            writer.writes_on()
        mishap(server)
    for writer in writers:
        writer.writes_on()
        writer.finish()

    await check_truth(own_place, api, *writers)
    assert any(process.log("store_trouble") for process in (api, *workers))  # it was noticed
    assert all(worker.popen.poll() is None for worker in workers)


async def test_sessions_that_are_ended_again_and_again_lose_nothing(own_place: Place, server: PostgresServer) -> None:
    """An administrator ends all sessions in a loop: writers and workers go on, nothing is lost or paid for twice."""
    api = own_place.serve()
    workers = [own_place.work(**WORK), own_place.work(**WORK)]
    writer = Writer(api, bears={UNREACHED})

    ended, end = 0, time.monotonic() + 6
    while time.monotonic() < end:
        ended += int(server.query(END_ALL))
    writer.writes_on()
    writer.finish()

    assert ended > 50
    await check_truth(own_place, api, writer)
    assert all(worker.popen.poll() is None for worker in workers)
