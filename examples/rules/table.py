"""The application's own side: its tables, the rules in a file, and the dashboards."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncpg

from embedq.errors import Invalid, NotFound

HERE = Path(__file__).parent
RULES = HERE / "rules.jsonl"
SCHEMA_LOCK = 4_002_001  # any number: two that prepare at once do so one after the other
DASHBOARDS = ("embedding_job_health", "embedding_worker_performance", "embedding_job_failures")
TROUBLE = (asyncpg.PostgresError, asyncpg.InterfaceError)

# A trigger sees one statement for the whole file. Loaded again, only what differs is written.
LOAD = """
WITH given AS (
  SELECT * FROM jsonb_to_recordset($1::text::jsonb) AS g (project text, rule_id text, title text, guidance text,
    rationale text, priority text, owner text)),
made AS (
  INSERT INTO projects (name) SELECT DISTINCT project FROM given ON CONFLICT (name) DO UPDATE SET name = excluded.name
  RETURNING id, name)
INSERT INTO rules AS r (project_id, rule_id, title, guidance, rationale, priority, owner)
SELECT m.id, g.rule_id, g.title, g.guidance, g.rationale, coalesce(g.priority, 'medium'), g.owner
FROM given g JOIN made m ON m.name = g.project
ON CONFLICT (rule_id) DO UPDATE SET project_id = excluded.project_id, title = excluded.title,
  guidance = excluded.guidance, rationale = excluded.rationale, priority = excluded.priority, owner = excluded.owner,
  updated_at = now()
WHERE (r.project_id, r.title, r.guidance, r.rationale, r.priority, r.owner) IS DISTINCT FROM
  (excluded.project_id, excluded.title, excluded.guidance, excluded.rationale, excluded.priority, excluded.owner)
RETURNING r.rule_id
"""


async def prepare(url: str) -> None:
    """Make the tables, and the views over embedq's, which must be there."""
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool, pool.acquire() as db, db.transaction():
        await db.execute("SELECT pg_advisory_xact_lock($1)", SCHEMA_LOCK)
        for name in ("schema.sql", "views.sql"):
            await db.execute((HERE / name).read_text())


async def load(url: str, rules: Iterable[Mapping[str, Any]]) -> int:
    """Write rules into the table; answer with how many were new or other than before."""
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
        return len(await pool.fetch(LOAD, json.dumps(list(rules))))


def read(path: Path) -> list[dict[str, Any]]:
    """Read rules from a file of JSON lines; name the first line that is none."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}") from error
    rules = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            rules.append(_rule(line, f"{path}, line {number}"))
    return rules


def _rule(line: bytes, where: str) -> dict[str, Any]:
    try:
        rule = json.loads(line)
    except ValueError as error:  # no JSON, or no UTF-8
        raise Invalid(f"{where}: no valid JSON ({error})") from error
    if not isinstance(rule, dict):
        raise Invalid(f"{where}: an object is needed, not {type(rule).__name__}")
    return rule


async def look(url: str) -> dict[str, Sequence[Mapping[str, Any]]]:
    """Read the dashboards."""
    async with asyncpg.create_pool(url, min_size=1, max_size=1) as pool:
        try:
            found = {name: await pool.fetch(f"SELECT * FROM {name}") for name in DASHBOARDS}  # noqa: S608 names of ours
        except asyncpg.UndefinedTableError as error:
            raise NotFound(f"{error}: run `.venv/bin/python -m examples.rules` first, which makes it") from error
    return {name: [dict(row) for row in rows] for name, rows in found.items()}
