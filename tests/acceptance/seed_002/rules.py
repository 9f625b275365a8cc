"""The example `rules` as its README runs it: the tables, `embedq attach`, and what the database says then."""

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from tests.acceptance.processes import COMMAND_SECONDS, Place
from tests.acceptance.waiting import until

from embedq.embedders.fake import vectors_of

ROOT = Path(__file__).parents[3]
README = ROOT / "examples" / "rules" / "README.md"
ATTACH = (
    "attach", "rules", "--key", "id", "--text", "title,guidance,rationale", "--into", "embedding",
    "--priority", "CASE priority WHEN 'critical' THEN 'urgent' WHEN 'high' THEN 'high' ELSE 'normal' END",
    "--tenant", "project_id",
)  # fmt: skip
INSERT = """
INSERT INTO rules (rule_id, project_id, title, guidance, rationale, priority)
SELECT %(rule_id)s, id, %(title)s, %(guidance)s, %(rationale)s, %(priority)s FROM projects WHERE name = 'checkout'
"""
Row = dict[str, Any]


class Rules:
    """The application's table beside embedq's, in one database."""

    def __init__(self, place: Place) -> None:
        """Use this place's database, with vectors as long as the table wants them and the README's first wait."""
        self.place = place
        place.environment |= {"EMBEDQ_EMBEDDER": "fake", "EMBEDQ_RETRY_BASE_SECONDS": "30", "PYTHONPATH": str(ROOT)}

    def example(self, *arguments: str) -> str:
        """Run the example's own script; answer with what it says."""
        command = (sys.executable, "-m", "examples.rules", *arguments)
        done = subprocess.run(
            command,
            cwd=self.place.folder,
            env=self.place.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def embedq(self, *command: str) -> str:
        """Run a command of embedq that must go well."""
        done = self.place.run(*command)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def status(self) -> dict[str, int]:
        """Count this table's jobs as `embedq status --json` does."""
        queue = json.loads(self.embedq("status", "--json"))["queue"]
        return {name: counts["by_collection"]["rules"] for name, counts in queue.items()}

    def write(self, rule_id: str, title: str, priority: str = "medium", rationale: str | None = None) -> Row:
        """Add one rule, by one statement of the application's own."""
        given = {"rule_id": rule_id, "title": title, "guidance": f"Do it: {rule_id}", "rationale": rationale}
        self.sql(INSERT, given | {"priority": priority})
        return self.read(rule_id)

    def read(self, rule_id: str) -> Row:
        """Read one rule, its vector as a list."""
        [row] = self.sql("SELECT *, embedding::real[] AS vector FROM rules WHERE rule_id = %s", (rule_id,))
        return row

    def embedded(self, *rule_ids: str) -> list[Row]:
        """Wait until these rows have the vectors of their texts."""
        return [until(partial(self._current, name), f"a vector of {name}") for name in rule_ids]

    def health(self) -> dict[tuple[str, str], Row]:
        """Read the first dashboard, by status and priority."""
        rows = self.sql("SELECT * FROM embedding_job_health WHERE collection = 'rules'")
        return {(row["status"], row["priority"]): row for row in rows}

    def counts(self) -> dict[tuple[str, str], int]:
        """Count jobs by status and priority, as the first dashboard does."""
        return {key: row["count"] for key, row in self.health().items()}

    def counted(self, expected: dict[tuple[str, str], int]) -> None:
        """Wait until the first dashboard counts so."""
        until(lambda: self.counts() == expected, f"{expected}, not {self.counts()}")

    def sql(self, statement: str, values: dict[str, Any] | Sequence[Any] | None = None) -> list[Row]:
        """Run a statement as the application would."""
        url = self.place.environment["EMBEDQ_URL"]
        with psycopg.connect(url, autocommit=True, row_factory=dict_row) as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def _current(self, rule_id: str) -> Row | None:
        row = self.read(rule_id)
        return row if row["vector"] and vector_of(row) == pytest.approx(row["vector"]) else None


def hash_of(row: Row) -> str:
    """Name a rule's text as the fake embedder does in its notes."""
    text = "\n".join(part for part in (row["title"], row["guidance"], row["rationale"]) if part)
    return sha256(text.encode()).hexdigest()


def vector_of(row: Row) -> list[float]:
    """Make the vector that the fake embedder makes of a rule's text."""
    return [float(value) for value in vectors_of([bytes.fromhex(hash_of(row))])[0]]
