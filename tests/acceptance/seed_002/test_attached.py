"""Seed 002: rules that a table holds are embedded by triggers, by their priority, each text once."""

from datetime import timedelta

from tests.acceptance.seed_002.rules import ATTACH, README, Rules, hash_of
from tests.acceptance.waiting import until

import embedq
from embedq.model import RetryPolicy

NINE, TEXTS = 9, 8  # rules in the example's file; two of them have one text


def test_the_command_is_the_readmes() -> None:
    """What these tests run is what the README tells people to run."""
    assert " ".join(f'"{part}"' if " " in part or "," in part else part for part in ATTACH) in README.read_text()


async def test_the_retry_policy_is_the_attached_tables_own(rules: Rules) -> None:
    """Three attempts, the first wait 30 s, doubled up to 300 s: as the settings said when the table was attached."""
    async with embedq.open(rules.place.environment["EMBEDQ_URL"], embedder="fake") as eq:
        policy = (await eq.collection("rules")).declaration.retry

    assert policy == RetryPolicy(base=timedelta(seconds=30), cap=timedelta(seconds=300), max_attempts=3)


def test_rules_that_were_there_are_embedded_each_text_once(rules: Rules) -> None:
    """The backfill waits in the low lane, takes one call, pays for equal texts once, and writes into the table."""
    rules.counted({("pending", "low"): NINE})

    rules.place.work()
    written = [row["rule_id"] for row in rules.sql("SELECT rule_id FROM rules")]
    rows = rules.embedded(*written)

    assert len(rows) == NINE
    assert sorted(rules.place.embedded_hashes()) == sorted({hash_of(row) for row in rows})
    assert len(rules.place.embedded_hashes()) == TEXTS
    rules.counted({("completed", "low"): NINE})


def test_priorities_become_lanes(rules: Rules) -> None:
    """Critical is urgent, high is high, the rest is normal, and what is urgent is embedded first."""
    rules.embedq("pause")
    worker = rules.place.work(EMBEDQ_WORKERS=1, EMBEDQ_BATCH_SIZE=1)
    wanted = {"LOW": "low", "MED": "medium", "TOP": "critical", "HIGH": "high"}
    rows = {name: rules.write(name, f"Rule {name}", priority) for name, priority in wanted.items()}
    fresh = {("pending", "urgent"): 1, ("pending", "high"): 1, ("pending", "normal"): 2}
    rules.counted({("pending", "low"): NINE} | fresh)

    rules.embedq("resume")
    rules.embedded(*wanted)

    first, second, *rest = rules.place.embedded_hashes()
    assert (first, second) == (hash_of(rows["TOP"]), hash_of(rows["HIGH"]))
    assert set(rest[:2]) == {hash_of(rows["LOW"]), hash_of(rows["MED"])}  # one lane, and noted in one breath perhaps
    assert worker.leave() == 0


def test_only_a_change_of_the_text_queues_a_job(rules: Rules) -> None:
    """An owner or a priority queues nothing; new guidance does; a deleted rule and a dropped project leave nothing."""
    rules.place.work()
    before = rules.embedded("SEC-001")[0]
    rules.counted({("completed", "low"): NINE})
    calls = len(rules.place.calls())

    rules.sql("UPDATE rules SET owner = 'Ada', priority = 'low'")
    assert rules.sql("SELECT count(*) FROM embedq.noted") == [{"count": 0}]
    rules.sql("UPDATE rules SET guidance = 'Mask all of it' WHERE rule_id = 'SEC-001'")
    after = rules.embedded("SEC-001")[0]
    rules.sql("DELETE FROM projects WHERE name = 'warehouse'")

    assert after["vector"] != before["vector"]
    assert len(rules.place.calls()) == calls + 1
    until(lambda: rules.sql("SELECT count(*) FROM embedq.record WHERE valid_to IS NULL") == [{"count": 6}], "six rules")


def test_many_rules_in_one_statement_are_few_calls(rules: Rules) -> None:
    """Rules are embedded in batches, by several processes at once, and none of them twice."""
    rules.place.work()
    rules.place.work()
    rules.counted({("completed", "low"): NINE})
    calls = len(rules.place.calls())

    rules.sql(
        "INSERT INTO rules (rule_id, project_id, title, guidance) "
        "SELECT 'N-' || n, (SELECT id FROM projects LIMIT 1), 'Rule ' || n, 'Do ' || n FROM generate_series(1, 500) n"
    )
    until(lambda: rules.sql("SELECT count(*) FROM rules WHERE embedding IS NULL") == [{"count": 0}], "500 vectors")

    assert len(rules.place.embedded_hashes()) == len(set(rules.place.embedded_hashes())) == TEXTS + 500
    assert len(rules.place.calls()) - calls <= 500 / 100 + 5


def test_a_rolled_back_write_queues_nothing_and_detach_leaves_the_table_as_it_was(rules: Rules) -> None:
    """The trigger's note is part of the application's transaction; detached, the table has no trigger."""
    rules.sql("BEGIN; DELETE FROM rules; ROLLBACK")
    assert rules.sql("SELECT count(*) FROM embedq.noted") == [{"count": 0}]

    rules.embedq("detach", "rules")

    triggers = "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'rules'::regclass AND NOT tgisinternal"
    assert rules.sql(triggers) == [{"count": 0}]
    assert rules.sql("SELECT count(*) FROM rules") == [{"count": NINE}]
