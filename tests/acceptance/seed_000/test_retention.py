"""Seed 000: finished jobs are kept for the configured days, and a wrong configuration is refused."""

import sqlite3

import pytest
from tests.acceptance.processes import Place

DAY = 86_400_000  # milliseconds, as the store counts


@pytest.mark.parametrize("days", ["", "5", "31", "abc", "7.5"])
def test_a_wrong_retention_stops_the_start(place: Place, days: str) -> None:
    """Set but blank, not a whole number, or outside 7 to 30: the worker refuses to start and names the bounds."""
    refused = place.run("work", EMBED_JOB_RETENTION_DAYS=days)

    assert refused.returncode == 1
    assert f"EMBED_JOB_RETENTION_DAYS={days!r}" in refused.stderr
    assert "7" in refused.stderr
    assert "30" in refused.stderr


def test_an_unset_retention_is_said_at_boot_and_refused_where_strict(place: Place) -> None:
    """Unset means 14 days, said at boot; with EMBEDQ_STRICT=1 it is refused."""
    worker = place.work()
    refused = place.run("work", EMBEDQ_STRICT=1)

    assert any("14 days" in said for said in worker.heard("started")["assumed"])
    assert refused.returncode == 1
    assert "EMBED_JOB_RETENTION_DAYS" in refused.stderr


def test_old_finished_jobs_are_deleted_and_open_ones_are_not(place: Place) -> None:
    """Completed and failed jobs past their days are purged; younger and open ones stay, whatever their age."""
    api = place.up(EMBEDQ_FAKE_FAULTS="bad=POISON")
    texts = {"old": "one", "young": "two", "old-dead": "POISON 1", "young-dead": "POISON 2"}
    api.put(*({"id": name, "text": text} for name, text in texts.items()))
    api.counted(completed=2, failed=2)
    api.act("pause")
    api.put({"id": "old-open", "text": "three"})
    api.leave()
    with sqlite3.connect(place.database) as database:
        database.execute(
            "UPDATE embedq_job SET completed_at = completed_at - ?1, last_at = last_at - ?1,"
            " queued_at = queued_at - ?1, created_at = created_at - ?1"
            " WHERE record IN (SELECT rid FROM embedq_record WHERE id LIKE 'old%')",
            (8 * DAY,),
        )
    database.close()

    api = place.up(EMBED_JOB_RETENTION_DAYS=7)

    assert api.heard("purged")["count"] == 2
    assert {job["record_id"] for job in api.jobs()} == {"young", "young-dead", "old-open"}
    assert api.record("old")["embedding_status"] == "embedded"
    assert api.record("old-dead")["embedding_status"] == "failed"
