"""SIGKILL in the middle of everything, again and again."""

import random
import time

from tests.acceptance.load import Writer
from tests.acceptance.processes import Place, Process

WORK = {"EMBEDQ_FAKE_FAULTS": "latency=0.03", "EMBEDQ_BATCH_SIZE": 20, "EMBED_JOB_RECOVERY_INTERVAL": 500}
LEAST = 3  # kills, however slow the machine is


def kill_at_random(place: Place, writer: Writer, workers: list[Process], *, seconds: float) -> int:
    """Kill one of API and workers after each few writes, and start it anew, for so long; answer with how often."""
    chance, kills = random.Random(7), 0  # noqa: S311 nothing secret
    end = time.monotonic() + seconds
    while kills < LEAST or time.monotonic() < end:
        writer.writes_on(chance.randrange(5, 60))
        victim = chance.randrange(len(workers) + 1)
        if victim == len(workers):
            writer.api.kill()
            writer.api = place.serve()
        else:
            workers[victim].kill()
            workers[victim] = place.work(**WORK)
        kills += 1
    return kills
