"""Seed 000: leases run out for workers that are gone, and hold for those that show signs of life."""

from datetime import datetime

from tests.acceptance.processes import Api, Place, Process
from tests.acceptance.waiting import throughout, until

HANGING = {"EMBEDQ_FAKE_FAULTS": "hang=100", "EMBEDQ_WORKERS": 1}


def lease_one(place: Place, api: Api, **settings: object) -> tuple[Process, str]:
    """Let a worker lease one job and never finish it; answer with the worker and the job."""
    worker = place.work(**{**HANGING, **settings})
    [receipt] = api.put({"id": "n1", "text": "one"})
    until(place.calls, "the job with the embedder")
    return worker, receipt["job_id"]


def moment(job: dict[str, str]) -> datetime:
    return datetime.fromisoformat(job["lease_until"])


def test_a_lease_runs_out_when_its_worker_is_silent_and_another_takes_the_job(place: Place) -> None:
    """A worker that stops without a word loses its job after the lease; the job is not counted as failed."""
    api = place.serve()
    silent, job = lease_one(place, api, EMBEDQ_LEASE_SECONDS=1)
    owner = api.job(job)["worker_id"]
    place.freeze(silent)
    other = place.work(EMBED_JOB_RECOVERY_INTERVAL=200)

    api.embedded(1)

    done = api.job(job)
    assert (done["status"], done["attempts"]) == ("completed", 0)
    assert done["worker_id"] != owner
    assert other.heard("rescued")["because"] == "the lease ran out"


def test_a_job_longer_than_its_lease_is_kept_by_heartbeat(place: Place) -> None:
    """A call three times as long as the lease stays its worker's: the lease grows, and nobody else gets the job."""
    api = place.serve()
    slow, job = lease_one(
        place, api, EMBEDQ_FAKE_FAULTS="latency=3", EMBEDQ_LEASE_SECONDS=1, EMBEDQ_HEARTBEAT_SECONDS=0.2
    )
    other = place.work(EMBED_JOB_RECOVERY_INTERVAL=100)
    owner, first = api.job(job)["worker_id"], moment(api.job(job))

    until(lambda: moment(api.job(job)) > first, "a longer lease")
    throughout(lambda: api.job(job)["worker_id"] == owner, lambda: api.counts()["missing"] == 0, "another owner")

    assert {call["pid"] for call in place.calls()} == {slow.pid}
    assert len(place.calls()) == 1
    assert api.job(job)["crashes"] == 0
    assert other.log("rescued") == []


def test_a_worker_that_misses_three_heartbeats_is_warned_of_and_keeps_its_jobs(place: Place) -> None:
    """Three heartbeats without a sign: a warning names the worker, and its jobs stay locked until the lease is over."""
    api = place.serve()
    silent, job = lease_one(place, api, EMBEDQ_HEARTBEAT_SECONDS=0.2)
    owner = api.job(job)["worker_id"]
    place.freeze(silent)
    other = place.work(EMBEDQ_HEARTBEAT_SECONDS=0.2, EMBED_JOB_RECOVERY_INTERVAL=100)

    warning = other.heard("heartbeat_missed", workerId=owner)

    assert warning["level"] == "warning"
    assert warning["missed"] >= 3
    still = api.job(job)
    assert (still["status"], still["worker_id"]) == ("processing", owner)
    assert other.log("rescued") == []
