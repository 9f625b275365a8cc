"""Attached tables in real processes: the command is killed, workers are killed, applications write on."""

# ruff: noqa: S608 (names of tables are put into statements here on purpose)

import asyncio
import random
import time
from typing import Any

import asyncpg
import pytest
from tests.acceptance.processes import Place, Process
from tests.acceptance.waiting import PATIENCE, until

ROWS = 12_000
CREATE = "CREATE EXTENSION IF NOT EXISTS vector; CREATE TABLE docs (id int PRIMARY KEY, body text, e vector(16))"
FILL = f"INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, {ROWS}) n"
ATTACH = ("attach", "docs", "--key", "id", "--text", "body", "--into", "e")
# How far it is, and whether every row has the vector of its very text: the one that is stored under its hash.
FACTS = """
SELECT count(*) AS rows, count(*) FILTER (WHERE d.body <> '' AND x.rid IS NULL) AS unknown,
  count(*) FILTER (WHERE d.body <> '' AND (d.e, sha256(d.body::bytea)) IS DISTINCT FROM (v.embedding, v.hash)) AS wrong,
  (SELECT count(*) FROM embedq.record r WHERE r.valid_to IS NULL AND NOT EXISTS (
    SELECT FROM docs o WHERE o.id::text = r.id AND o.body <> '')) AS orphans,
  (SELECT count(*) FROM embedq.noted) + (SELECT count(*) FROM embedq.unplaced) AS undone,
  (SELECT count(*) FROM embedq.job WHERE status = 0) AS open
FROM docs d LEFT JOIN embedq.record x ON x.id = d.id::text AND x.valid_to IS NULL
LEFT JOIN embedq.vector_1 v ON v.record = x.rid
"""
IN_STEP = {"unknown": 0, "wrong": 0, "orphans": 0, "undone": 0, "open": 0}
SEEN = "SELECT seen FROM embedq.attachment"
WORK = {"EMBEDQ_FAKE_FAULTS": "latency=0.02", "EMBEDQ_BATCH_SIZE": 100, "EMBED_JOB_RECOVERY_INTERVAL": 500}


def ask(place: Place, sql: str, *values: object) -> Any:  # noqa: ANN401 a row, or what a statement says
    """Ask the place's database."""

    async def work() -> object:
        db = await asyncpg.connect(place.environment["EMBEDQ_URL"])
        try:
            return await db.fetchrow(sql, *values) if sql.lstrip().startswith("SELECT") else await db.execute(sql)
        finally:
            await db.close()

    return asyncio.run(work())


def is_in_step(place: Place) -> bool:
    """Say whether everything that was written has been followed."""
    facts = dict(ask(place, FACTS))
    facts.pop("rows")
    return bool(facts == IN_STEP)


def seen(place: Place) -> int:
    """Say how far the walk is, and -1 before there is one."""
    try:
        row = ask(place, SEEN)
    except asyncpg.UndefinedTableError:
        return -1
    return -1 if row is None else int(row["seen"])


def begun(place: Place) -> Process:
    """Start to attach, and kill it in the middle of the walk."""
    command = place.try_to(*ATTACH)
    until(lambda: seen(place) > 0, "the first page")
    command.kill()
    assert 0 < seen(place) < ROWS
    return command


def test_a_killed_attach_is_gone_on_with(place: Place) -> None:
    """Killed in the middle: the same command goes on from there, and everything is embedded once."""
    ask(place, CREATE)
    ask(place, FILL)
    begun(place)
    before = seen(place)

    done = place.run(*ATTACH)

    assert done.returncode == 0, done.stderr
    assert before > 0
    assert seen(place) == ROWS
    place.work(**WORK)
    until(lambda: is_in_step(place), "every row in step", patience=3 * PATIENCE)
    assert len(place.embedded_hashes()) == ROWS


def test_workers_finish_what_a_killed_command_began(place: Place) -> None:
    """Nobody runs the command again: a worker walks on by itself, and fresh writes go first."""
    ask(place, CREATE)
    ask(place, FILL)
    begun(place)

    place.work(**WORK)
    ask(place, "INSERT INTO docs VALUES (-1, 'fresh')")

    until(lambda: ask(place, "SELECT e FROM docs WHERE id = -1")["e"] is not None, "the fresh row")
    assert ask(place, "SELECT count(*) AS n FROM docs WHERE e IS NULL")["n"] > 0
    until(lambda: is_in_step(place), "every row in step", patience=3 * PATIENCE)


@pytest.mark.parametrize("seconds", [8.0])
def test_killed_workers_and_writers_end_in_step(place: Place, seconds: float) -> None:
    """Two workers are killed and started in turn while applications write: nothing is lost, no vector is wrong."""
    ask(place, CREATE)
    ask(place, "INSERT INTO docs SELECT n, 'text ' || n FROM generate_series(1, 500) n")
    assert place.run(*ATTACH).returncode == 0
    chance = random.Random(5)  # noqa: S311 nothing secret
    workers = [place.work(**WORK), place.work(**WORK)]
    end, kills, writes = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        for _ in range(chance.randrange(5, 40)):
            low, word = chance.randrange(600), chance.choice(["", "red", "green", str(writes)])
            high = low + chance.choice([0, 0, 3, 50])
            ask(place, chance.choice([
                f"UPDATE docs SET body = '{word}' || id WHERE id BETWEEN {low} AND {high}",
                f"INSERT INTO docs VALUES ({low}, '{word}') ON CONFLICT (id) DO UPDATE SET body = excluded.body",
                f"DELETE FROM docs WHERE id = {low}",
                f"UPDATE docs SET body = NULL WHERE id = {low}",
            ]))  # fmt: skip
            writes += 1
        victim = chance.randrange(2)
        workers[victim].kill()
        workers[victim] = place.work(**WORK)
        kills += 1

    until(lambda: is_in_step(place), "every row in step", patience=2 * PATIENCE)
    assert kills >= 2
    assert writes > 20


def test_a_change_is_embedded_soon(place: Place) -> None:
    """An idle worker hears of a committed write and stores its vector, without anybody asking."""
    ask(place, CREATE)
    assert place.run(*ATTACH).returncode == 0
    place.work()
    ask(place, "INSERT INTO docs VALUES (1, 'warm up')")
    until(lambda: is_in_step(place), "the first row")
    took = []
    for number in range(2, 12):
        ask(place, f"INSERT INTO docs VALUES ({number}, 'text {number}')")
        before = time.monotonic()
        until(lambda n=number: ask(place, f"SELECT e FROM docs WHERE id = {n}")["e"] is not None, "its vector")  # type: ignore[misc]  # a default binds the loop's value
        took.append(time.monotonic() - before)

    assert sorted(took)[5] < 0.5
