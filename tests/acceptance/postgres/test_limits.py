"""Limits across machines: pause, the registry of workers and the request budget live in the database."""

import time

from tests.acceptance.postgres.network import Network
from tests.acceptance.processes import Api, Place
from tests.acceptance.provider import Provider
from tests.acceptance.seed_000.test_limits import (  # noqa: F401 the same fact holds on every database
    test_two_processes_together_keep_to_the_limit_and_still_retry,
)
from tests.acceptance.waiting import throughout, until

BEATS = {"EMBEDQ_HEARTBEAT_SECONDS": 0.2, "EMBEDQ_POLL_SECONDS": 0.1, "EMBEDQ_WORKERS": 1}


def notes(count: int, name: str = "n") -> list[dict[str, str]]:
    return [{"id": f"{name}{number}", "text": f"text {number} of {name}"} for number in range(count)]


def seen(api: Api) -> dict[str, str]:
    """Read which hosts' workers are registered and alive, and when each was seen last."""
    workers = api.status()["workers"]["workers"]
    return {worker["host"].partition("/")[0]: worker["last_seen_at"] for worker in workers if worker["alive"]}


def check_idle(network: Network, api: Api) -> None:
    """Check that no host takes a job while both show signs of life."""
    signs: dict[str, set[str]] = {"loom": set(), "mill": set()}

    def showed_three_signs() -> bool:
        for host, moment in seen(api).items():
            signs[host].add(moment)
        return all(len(moments) >= 3 for moments in signs.values())

    throughout(lambda: not network.place.calls(), showed_three_signs, "nothing is embedded")


def test_a_pause_holds_on_every_host_and_through_their_restarts(network: Network) -> None:
    """Paused, no host leases, restarted or not; the registry names both all the while; resumed, both work."""
    api = network.place.serve()
    workers = [network.work_on(host, **BEATS) for host in network.hosts]
    api.act("pause")
    api.put(*notes(20))
    check_idle(network, api)

    assert [worker.leave() for worker in workers] == [0, 0]
    assert seen(api) == {}
    slow = {"EMBEDQ_BATCH_SIZE": 1, "EMBEDQ_FAKE_FAULTS": "latency=0.05"}
    workers = [network.work_on(host, **BEATS, **slow) for host in network.hosts]
    api.put(*notes(20, "m"))
    check_idle(network, api)
    assert api.status()["paused"]

    api.act("resume")
    api.embedded(40)
    assert {call["pid"] for call in network.place.calls()} == {worker.pid for worker in workers}
    assert len(network.place.embedded_hashes()) == 40


def test_a_provider_that_throttles_one_process_is_left_alone_by_all(place: Place) -> None:
    """429 with Retry-After, told to one process: another that knows nothing of it does not ask before it is over."""
    with Provider("429=1:4") as provider:
        api = place.serve(**provider.settings)
        settings = {**provider.settings, "EMBEDQ_WORKERS": 1, "EMBEDQ_BATCH_SIZE": 1, "EMBEDQ_POLL_SECONDS": 0.1}
        told, other = place.work(**settings), place.work(**settings)
        place.freeze(other)
        api.put(*notes(20))
        told.heard("throttled")

        other.go_on()
        awake_at = time.monotonic()
        api.embedded(20)

        first, second = provider.moments[:2]
        assert awake_at < first + 4 <= second
        assert {job["attempts"] for job in api.jobs()} == {0}
        assert len(provider.moments) == 21


def test_a_host_that_is_cut_off_is_missed_in_the_registry(network: Network) -> None:
    """Three heartbeats after its cable was pulled a host counts as lost, and as alive again when it is back."""
    api = network.place.serve(EMBEDQ_HEARTBEAT_SECONDS=0.2)
    for host in network.hosts:
        network.work_on(host, **BEATS)
    until(lambda: seen(api).keys() == {"loom", "mill"}, "both hosts")

    network.hosts[0].cut()
    until(lambda: seen(api).keys() == {"mill"}, "one host missed")
    network.hosts[0].mend()

    until(lambda: seen(api).keys() == {"loom", "mill"}, "both hosts again")
