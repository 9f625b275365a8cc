"""Seed 000: health follows how the work goes."""

from tests.acceptance.processes import Place
from tests.acceptance.waiting import until


def test_five_failures_in_a_row_are_degraded_and_a_success_is_healthy_again(place: Place) -> None:
    """After five failures health is DEGRADED with count and patterns; the next success resets it, and is logged."""
    api = place.up(
        EMBEDQ_FAKE_FAULTS="500=6", EMBEDQ_RETRY_BASE_SECONDS=0.02, EMBEDQ_MAX_ATTEMPTS=20, EMBEDQ_HEARTBEAT_SECONDS=0.1
    )
    api.put({"id": "n1", "text": "one"})

    degraded = until(lambda: (s := api.status())["health"] == "DEGRADED" and s, "a degraded fleet")
    api.embedded(1)
    healthy = until(lambda: (s := api.status())["health"] == "HEALTHY" and s, "a healthy fleet")

    [ill, *_] = degraded["workers"]["workers"]
    assert ill["consecutive_failures"] >= 5
    assert ill["error_patterns"]["500"] >= 5
    warning = api.heard("health_changed", health="DEGRADED")
    assert (warning["level"], warning["consecutiveFailures"]) == ("warning", 5)
    assert {worker["consecutive_failures"] for worker in healthy["workers"]["workers"]} == {0}
    assert all(worker["last_success_at"] for worker in healthy["workers"]["workers"])
    recovery = api.heard("health_changed", health="HEALTHY")
    assert (recovery["was"], recovery["recoveredAfter"] >= 5) == ("DEGRADED", True)


def test_a_success_after_three_failures_resets_the_count_and_is_logged(place: Place) -> None:
    """Three failures are not yet an illness; the success after them resets the count and writes a recovery line."""
    api = place.up(EMBEDQ_FAKE_FAULTS="500=3", EMBEDQ_RETRY_BASE_SECONDS=0.02, EMBEDQ_MAX_ATTEMPTS=5)
    api.put({"id": "n1", "text": "one"})

    api.embedded(1)

    recovery = api.heard("health_changed")
    assert (recovery["health"], recovery["recoveredAfter"], recovery["consecutiveFailures"]) == ("HEALTHY", 3, 0)
