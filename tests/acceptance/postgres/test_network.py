"""Bad days: the network between a worker's host and the server."""

import time

from tests.acceptance.load import check_integrity
from tests.acceptance.postgres.network import Network
from tests.acceptance.postgres.truth import facts_of
from tests.acceptance.processes import Api
from tests.acceptance.waiting import until

LEASE = {"EMBEDQ_LEASE_SECONDS": 2, "EMBEDQ_HEARTBEAT_SECONDS": 0.4, "EMBED_JOB_RECOVERY_INTERVAL": 200}


def put(api: Api, name: str, count: int) -> None:
    api.put(*({"id": f"{name}{number}", "text": f"text {number} of {name}"} for number in range(count)))


async def test_the_jobs_of_a_host_that_is_cut_off_are_done_by_another(network: Network) -> None:
    """Its leases run out and another host finishes; when it is back it changes nothing and works on."""
    api, (first, second) = network.place.serve(), network.hosts
    cut = network.work_on(first, **LEASE, EMBEDQ_WORKERS=1, EMBEDQ_FAKE_FAULTS="latency=1.5")
    put(api, "a", 30)
    until(network.place.calls, "a batch with the embedder")
    first.cut()

    other = network.work_on(second, **LEASE)
    api.embedded(30)
    rescued = other.heard("rescued")
    before = {job["id"]: job for job in api.jobs()}

    first.mend()
    lost = cut.heard("lease_lost")
    cut.heard("settled")
    assert rescued["because"] == "the lease ran out"
    assert set(lost["jobs"]) <= set(rescued["jobs"])
    assert {job["id"]: job for job in api.jobs()} == before
    assert other.leave() == 0
    put(api, "b", 5)
    api.embedded(35)
    await check_integrity(api)
    assert {call["pid"] for call in network.place.calls()[-1:]} == {cut.pid}
    assert (await facts_of(network.server.url()))["vectors"] == 35


async def test_connections_that_died_without_a_word_are_noticed(network: Network) -> None:
    """Both ends of a half-open connection notice within about 20 s: the worker goes on, the server lets go."""
    api, host = network.place.serve(), network.hosts[0]
    network.work_on(host)
    put(api, "a", 5)
    api.embedded(5)
    sessions = set(network.server.query(SESSIONS).splitlines())
    assert sessions

    host.go_silent()
    since = time.monotonic()
    put(api, "b", 5)
    api.embedded(10, patience=35)

    assert time.monotonic() - since > 5  # the old connections were dead indeed
    until(lambda: not sessions & set(network.server.query(SESSIONS).splitlines()), "no session left", patience=35)
    put(api, "c", 5)
    api.embedded(15)


SESSIONS = "SELECT pid FROM pg_stat_activity WHERE client_addr <> '127.0.0.1'"
