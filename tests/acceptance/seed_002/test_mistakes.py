"""Seed 002: an everyday mistake with the example is answered by one line, and what it prints is never cut."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.processes import COMMAND_SECONDS, Place
from tests.acceptance.seed_002.rules import ROOT, Rules

from embedq.testing.postgres import PostgresAddress

NOBODY = "postgresql://ada:hidden@127.0.0.1:1/shop"


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the example's script without a database."""
    environment = Place(folder, NOBODY).environment | {"PYTHONPATH": str(ROOT)} | variables
    command = (sys.executable, "-m", "examples.rules", *arguments)
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
    )


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (["gone.jsonl"], {}, "gone.jsonl cannot be read: No such file or directory"),
        (["bad.jsonl"], {}, "bad.jsonl, line 2: no valid JSON"),
        ([], {}, "127.0.0.1:1/shop cannot be reached"),
        (["dashboards"], {}, "The database cannot be reached"),
        ([], {"EMBEDQ_URL": "sqlite:///x.db"}, "Set EMBEDQ_URL"),
        ([], {"PYTHONPATH": f"hidden:{ROOT}"}, "asyncpg is missing: run `make examples` once"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, arguments: list[str], variables: dict[str, str], said: str) -> None:
    """A file, a server, a setting or a driver that is not there: it is named, and nothing else is said."""
    (tmp_path / "bad.jsonl").write_text('{"rule_id": "a"}\n{"rule_id":\n')
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "asyncpg.py").write_text("raise ModuleNotFoundError('hidden', name='asyncpg')")

    ended = run(tmp_path, *arguments, **variables)

    [line] = ended.stderr.splitlines()
    assert said in line
    assert "hidden@" not in line
    assert (ended.returncode, ended.stdout) == (1, "")


def test_help_is_given(tmp_path: Path) -> None:
    """`--help` is no file, and too many words are wrong usage."""
    helped = run(tmp_path, "--help")

    assert (helped.returncode, helped.stderr) == (0, "")
    assert "dashboards" in helped.stdout
    assert run(tmp_path, "one", "two").returncode == 2


def test_dashboards_before_the_tables_say_what_comes_first(tmp_path: Path, postgres18: PostgresAddress) -> None:
    """The views are made when rules are loaded."""
    ended = run(tmp_path, "dashboards", EMBEDQ_URL=postgres18.url())

    assert ended.returncode == 1
    assert "run `.venv/bin/python -m examples.rules` first" in ended.stderr


def test_what_the_dashboards_say_is_never_cut(rules: Rules) -> None:
    """On a narrow screen the fields of a row stand one below the other; in a pipe they stand side by side."""
    rules.place.work(EMBEDQ_FAKE_FAULTS="bad=POISON")
    row = rules.write("DEAD", "POISON, in a title that is long enough to fill more than half of a line")
    rules.counted({("completed", "low"): 9, ("failed", "normal"): 1})
    [letter] = rules.sql("SELECT * FROM embedding_job_failures")

    rules.place.environment.pop("COLUMNS", None)
    piped = rules.example("dashboards")
    rules.place.environment["COLUMNS"] = "80"
    narrow = rules.example("dashboards")

    assert any(
        all(str(part) in line for part in (row["id"], row["title"], letter["message"])) for line in piped.split("\n")
    )
    for part in (str(row["id"]), row["title"], letter["message"], "avg_time_ms", "last_attempt_at"):
        assert part in narrow
    assert "…" not in narrow + piped
    assert max(map(len, narrow.splitlines())) <= 100  # the title's own length, and its name before it
