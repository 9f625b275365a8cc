"""Bad days rehearsed with the fake embedder that users have, too."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from embedq.embedders.fake import FakeEmbedder
from embedq.embedders.faults import Faults
from embedq.model import EmbedderName, JobStatus, Reason

if TYPE_CHECKING:
    from conftest import House

FAKE = EmbedderName(provider="fake", model="")
FIFTY = [f"text {n}" for n in range(50)]


@pytest.mark.parametrize(
    "script",
    [
        "429=2:0.02",
        "500=1,ok=1,503=2",
        "500=7",
        "timeout=1,reset=1,cut=1",
        "hang=1",
        "refused=3",
        "404=2",
        "dimensions=2",
        "count=1,nan=1",
        "500=1,429=1:0.01,refused=1,nan=1,hang=1,502=2",
    ],
)
async def test_after_a_bad_day_everything_is_stored_and_nobody_charged(house: House, script: str) -> None:
    """Whatever befalls a batch of fifty, it ends with fifty vectors, and no job has paid for it with an attempt."""
    fake = FakeEmbedder(FAKE, faults=Faults.parse(script), remote=True)
    await house.declare()
    await house.put(FIFTY)
    await house.pool(build=lambda _: fake, attempt_deadline=timedelta(milliseconds=50)).start()

    counts = await house.settled(completed=50)

    assert counts.missing == 0
    assert {(job.attempts, job.crashes) for job in await house.jobs()} == {(0, 0)}


async def test_marked_texts_are_found_and_the_others_stored(house: House) -> None:
    """Three texts that the provider refuses, spread over a batch, become three dead letters."""
    fake = FakeEmbedder(FAKE, faults=Faults.parse("bad=POISON"))
    await house.declare()
    await house.put([f"{text} POISON" if n in {0, 20, 49} else text for n, text in enumerate(FIFTY)])
    await house.pool(build=lambda _: fake).start()

    await house.settled(completed=47, failed=3)

    dead = await house.jobs(status=JobStatus.FAILED)
    assert sorted(job.record_id for job in dead) == ["r0", "r20", "r49"]
    assert {job.reason for job in dead} == {Reason.PERMANENT_ERROR}
