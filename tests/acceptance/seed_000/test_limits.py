"""Seed 000: a request budget binds the whole fleet, and does not get in the way of retries."""

from tests.acceptance.processes import Place
from tests.acceptance.provider import Provider

TOKENS, INTERVAL = 3, 2.5
SLACK = 1.0  # seconds between taking from the budget and the arrival of the request, on a busy machine


def most_within(moments: list[float], span: float) -> int:
    """Count the most requests in any span of this length."""
    return max(sum(first <= moment < first + span for moment in moments) for first in moments)


def test_two_processes_together_keep_to_the_limit_and_still_retry(place: Place) -> None:
    """Two processes share one budget: no interval sees more requests than tokens, failed attempts included."""
    budget = {"EMBEDDING_RATE_LIMIT_TOKENS": TOKENS, "EMBEDDING_RATE_LIMIT_INTERVAL": int(INTERVAL * 1000)}
    with Provider("ok=2,500=1") as provider:
        settings = {**provider.settings, **budget, "EMBEDQ_BATCH_SIZE": 1, "EMBEDQ_RETRY_BASE_SECONDS": 0.05}
        api = place.up(**settings)
        other = place.work(**settings)

        api.put(*({"id": f"n{number}", "text": f"text {number}"} for number in range(9)))
        api.embedded(9)

        assert len(provider.moments) == 10
        assert most_within(provider.moments, INTERVAL - SLACK) <= TOKENS
        assert [job["attempts"] for job in api.jobs() if job["attempts"]] == [1]
        assert api.log("budget_empty") or other.log("budget_empty")


def test_a_throttling_provider_costs_no_attempt(place: Place) -> None:
    """429 with Retry-After: the provider is left alone for that long, no attempt is charged, all is embedded."""
    with Provider("429=1:1") as provider:
        api = place.up(**provider.settings)

        api.put(*({"id": f"n{number}", "text": f"text {number}"} for number in range(20)))
        api.embedded(20)

        assert provider.moments[1] - provider.moments[0] >= 1
        assert {job["attempts"] for job in api.jobs()} == {0}
        assert api.heard("throttled")["seconds"] == 1
