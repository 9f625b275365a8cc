"""Seed 002: the dashboards are views, and they say what embedq says."""

import json
from datetime import datetime

from tests.acceptance.seed_002.rules import Rules
from tests.acceptance.waiting import until

NINE = 9
A_DAY_AGO = "UPDATE embedq.job SET completed_at = completed_at - interval '25 hours' WHERE status = 2"


def as_embedq_counts(rules: Rules) -> dict[str, int]:
    """Add up the first dashboard the way `embedq status` does: what retries is pending."""
    totals = dict.fromkeys(("pending", "processing", "completed", "failed", "cancelled"), 0)
    for (status, _), count in rules.counts().items():
        totals["pending" if status == "retrying" else status] += count
    return totals


def test_jobs_by_status_and_priority_are_those_of_embedq(rules: Rules) -> None:
    """With jobs of every status, each count is right, and their sums are those of `embedq status --json`."""
    mixed = rules.place.work(EMBEDQ_FAKE_FAULTS="ok=1,500=1,bad=POISON")
    rules.counted({("completed", "low"): NINE})
    rules.write("RETRY", "It will be tried again", "critical")
    done = {("completed", "low"): NINE, ("retrying", "urgent"): 1}
    rules.counted(done)
    rules.write("DEAD", "POISON", "high")
    done[("failed", "high")] = 1
    rules.counted(done)
    mixed.leave()
    rules.place.work(EMBEDQ_FAKE_FAULTS="hang=1000", EMBEDQ_WORKERS=1, EMBEDQ_BATCH_SIZE=1)
    rules.write("HELD", "Somebody works on it")
    rules.counted(done | {("processing", "normal"): 1})
    rules.embedq("pause")
    rules.write("WAITS", "Nobody works on it")
    rules.write("GONE", "Cancelled", "critical")
    rules.counted(done | {("processing", "normal"): 1, ("pending", "normal"): 1, ("pending", "urgent"): 1})
    rules.sql("DELETE FROM rules WHERE rule_id = 'GONE'")

    rules.counted(done | {("processing", "normal"): 1, ("pending", "normal"): 1, ("cancelled", "urgent"): 1})
    assert as_embedq_counts(rules) == rules.status()


def test_the_average_time_and_the_span_are_the_jobs_own(rules: Rules) -> None:
    """Average, newest and oldest are computed from the jobs that `embedq jobs` lists."""
    rules.place.work(EMBEDQ_FAKE_FAULTS="latency=0.1")
    rules.counted({("completed", "low"): NINE})

    jobs = json.loads(rules.embedq("jobs", "--json", "--limit", "100"))["jobs"]
    row = rules.health()["completed", "low"]

    times = [job["processing_time_ms"] for job in jobs]
    assert abs(float(row["avg_time_ms"]) - sum(times) / NINE) <= 1
    assert row["avg_time_ms"] >= 100
    moments = sorted(job["created_at"] for job in jobs)
    assert [row["oldest"], row["newest"]] == [datetime.fromisoformat(moments[at]) for at in (0, -1)]


def test_workers_are_judged_by_their_last_day(rules: Rules) -> None:
    """Each worker has its completions, its average time and its failures; what is older than a day does not count."""
    rules.write("DEAD", "POISON")
    worker = rules.place.work(EMBEDQ_FAKE_FAULTS="bad=POISON", EMBEDQ_WORKERS=1)
    rules.counted({("completed", "low"): NINE, ("failed", "normal"): 1})
    facts = json.loads(rules.embedq("status", "--json"))["workers"]["workers"]

    [row] = rules.sql("SELECT * FROM embedding_worker_performance")

    assert [row["worker_id"]] == [found["id"] for found in facts]
    assert (row["jobs_completed"], row["failures"]) == (NINE, 1)
    assert row["avg_time_ms"] is not None
    worker.leave()
    rules.sql(A_DAY_AGO)
    [later] = rules.sql("SELECT * FROM embedding_worker_performance")
    assert (later["jobs_completed"], later["avg_time_ms"], later["failures"]) == (0, None, 1)


def test_dead_letters_are_listed_with_their_rules_and_replayed(rules: Rules) -> None:
    """A rule that is given up on is named with the cause; it is replayed by `embedq dead`, or mended by an edit."""
    refusing = rules.place.work(EMBEDQ_FAKE_FAULTS="bad=POISON")
    for name in ("DEAD-1", "DEAD-2"):
        rules.write(name, f"POISON {name}", "critical")

    letters = until(
        lambda: len(found := rules.sql("SELECT * FROM embedding_job_failures")) == 2 and found, "two letters"
    )

    assert {(row["rule_id"], row["title"]) for row in letters} == {
        ("DEAD-1", "POISON DEAD-1"),
        ("DEAD-2", "POISON DEAD-2"),
    }
    assert {(row["reason"], row["code"], row["attempts"]) for row in letters} == {("permanent_error", "400", 1)}
    assert "embedding_job_failures: nothing" not in rules.example("dashboards")
    rules.sql("UPDATE rules SET title = 'Antidote' WHERE rule_id = 'DEAD-1'")
    rules.embedded("DEAD-1")
    refusing.leave()
    rules.place.work()
    rules.embedq("dead", "replay", "--collection", "rules")
    rules.embedded("DEAD-2")
    assert rules.sql("SELECT * FROM embedding_job_failures") == []
    assert "embedding_job_failures: nothing" in rules.example("dashboards")


def test_the_dashboards_look_at_each_job_once(rules: Rules) -> None:
    """Neither view looks anything up per job: the jobs are read in one pass."""
    for view in ("embedding_job_health", "embedding_worker_performance"):
        plan = "\n".join(row["QUERY PLAN"] for row in rules.sql(f"EXPLAIN SELECT * FROM {view}"))  # noqa: S608 names of ours

        assert plan.count(" on job j") == 1
        assert "SubPlan" not in plan
