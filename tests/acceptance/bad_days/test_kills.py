"""Bad days: SIGKILL in the middle of everything, again and again."""

import sqlite3

from tests.acceptance.killing import WORK, kill_at_random
from tests.acceptance.load import Writer, check_integrity
from tests.acceptance.processes import Place

SECONDS = 12


async def test_nothing_is_lost_whoever_is_killed_whenever(place: Place) -> None:
    """Workers and API are killed at random under load; every acknowledged text gets its own vector, and all adds up."""
    writer = Writer(place.serve())
    workers = [place.work(**WORK), place.work(**WORK)]

    try:
        kill_at_random(place, writer, workers, seconds=SECONDS)
    finally:
        writer.finish()

    await check_integrity(writer.api, writer)
    with sqlite3.connect(place.database) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()
