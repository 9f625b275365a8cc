"""Seed 001: a rate limit hands back what has not started, at once."""

from tests.acceptance.processes import Api, Place, Process
from tests.acceptance.provider import Provider


def limited(place: Place, provider: Provider, **settings: object) -> tuple[Api, Process]:
    """Let one worker with batches of five meet a budget of one request."""
    api = place.serve(**provider.settings)
    budget = {"EMBEDDING_RATE_LIMIT_TOKENS": 1, "EMBEDQ_BATCH_SIZE": 5, "EMBEDQ_WORKERS": 1}
    worker = place.work(**{**provider.settings, **budget, **settings})
    api.put(*({"id": f"n{number}", "text": f"text {number}"} for number in range(15)))
    return api, worker


def test_an_empty_budget_releases_the_jobs_that_have_not_started(place: Place) -> None:
    """Neither the batch that would have to wait for the budget nor the one leased ahead stays leased."""
    with Provider() as provider:
        api, worker = limited(
            place,
            provider,
            EMBEDDING_RATE_LIMIT_INTERVAL=2000,
            EMBEDQ_LEASE_SECONDS=2.5,
            EMBEDQ_HEARTBEAT_SECONDS=0.2,
            EMBED_JOB_RECOVERY_INTERVAL=100,
        )

        api.counted(completed=5, processing=0, pending=10)

        api.embedded(15)
        assert worker.heard("budget_empty")
        assert worker.log("lease_lost") == worker.log("rescued") == []
        assert {job["attempts"] for job in api.jobs()} == {0}
        assert len(provider.texts) == len(set(provider.texts)) == 15


def test_a_budget_that_stays_empty_longer_than_a_lease_releases_everything(place: Place) -> None:
    """Where the wait is longer than the lease, no job is kept: all are pending, for whoever may ask first."""
    with Provider() as provider:
        api, worker = limited(place, provider, EMBEDDING_RATE_LIMIT_INTERVAL=60_000, EMBEDQ_LEASE_SECONDS=1)

        api.counted(completed=5, processing=0, pending=10)

        assert worker.heard("budget_empty")
        assert len(provider.moments) == 1
