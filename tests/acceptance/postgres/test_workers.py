"""Bad days: workers that are frozen past their lease, and workers that are killed."""

import asyncio

from tests.acceptance.killing import WORK, kill_at_random
from tests.acceptance.load import Writer
from tests.acceptance.postgres.truth import check_truth, has_leases
from tests.acceptance.processes import Place, Process
from tests.acceptance.seed_001.test_sleeper import (  # noqa: F401 the same facts hold on every database
    test_a_late_answer_is_taken_if_nobody_leased_the_job_since,
    test_a_worker_that_slept_past_its_lease_changes_nothing,
    test_rescue_never_takes_a_job_from_a_worker_that_renews_it,
)
from tests.acceptance.waiting import PATIENCE, until

SECONDS = 10
IN_THE_AIR = 2 * 2 * 20  # two workers in a process, each with a batch at the embedder and one about to be settled


async def test_nothing_is_lost_whoever_is_killed_whenever(place: Place) -> None:
    """Workers and API are killed at random under load; what was in the air is paid again, and nothing else."""
    writer = Writer(place.serve())
    workers = [place.work(**WORK), place.work(**WORK)]

    try:
        kills = kill_at_random(place, writer, workers, seconds=SECONDS)
    finally:
        writer.finish()

    await check_truth(place, writer.api, writer, paid_again=kills * IN_THE_AIR)


async def freeze_with_work(place: Place, process: Process) -> None:
    """Freeze a process at a moment when it holds jobs."""
    async with asyncio.timeout(PATIENCE):
        while True:
            place.freeze(process)
            if await has_leases(place.environment["EMBEDQ_URL"], process):
                return
            process.go_on()


async def test_a_worker_that_is_frozen_again_and_again_stores_nothing_twice(place: Place) -> None:
    """Stopped past its lease under load, again and again: others take over, and no old answer gets in the way."""
    lease = {"EMBEDQ_LEASE_SECONDS": 0.6, "EMBEDQ_HEARTBEAT_SECONDS": 0.1, "EMBED_JOB_RECOVERY_INTERVAL": 100}
    api = place.serve()
    sleeper = place.work(**{**WORK, **lease, "EMBEDQ_FAKE_FAULTS": "latency=0.3"})  # it nearly always holds jobs
    other = place.work(**{**WORK, **lease})
    writer = Writer(api)

    for _ in range(3):
        await freeze_with_work(place, sleeper)
        rescues = len(other.log("rescued"))
        until(lambda rescues=rescues: len(other.log("rescued")) > rescues, "a rescue")  # type: ignore[misc]  # a default binds the loop's value
        writer.writes_on()
        sleeper.go_on()
    writer.finish()

    await check_truth(place, api, writer, paid_again=3 * IN_THE_AIR)
