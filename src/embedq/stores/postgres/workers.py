"""The registry of workers."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from embedq.model import HealthReport, Process, Worker, WorkerId, WorkerInfo
from embedq.policy.jobs import MISSED_HEARTBEATS
from embedq.stores.columns import read_report, write_report
from embedq.stores.postgres.database import Database
from embedq.stores.postgres.moments import NOW

REGISTER = f"""
INSERT INTO embedq.worker AS w (started_at, seen_at, name, host, boot, pid, born, version, embedder)
VALUES ({NOW}, {NOW}, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (name) DO UPDATE SET host = excluded.host, boot = excluded.boot, pid = excluded.pid, born = excluded.born,
  version = excluded.version, embedder = excluded.embedder, started_at = excluded.started_at,
  seen_at = excluded.seen_at, gone = false
"""
BEAT = f"UPDATE embedq.worker SET seen_at = {NOW}, report = $2, gone = false WHERE name = $3 RETURNING true"
LEAVE = "UPDATE embedq.worker SET gone = true WHERE name = $1"

# Registered workers that were seen recently, and those that still hold a lease.
LIST = f"""
SELECT name, host, boot, pid, born, version, embedder, started_at, seen_at, report, {NOW} - seen_at AS silent
FROM embedq.worker
WHERE (NOT gone AND seen_at > {NOW} - interval '1 day') OR id IN (SELECT worker FROM embedq.lease) ORDER BY id
"""


async def register(database: Database, worker: WorkerInfo, now: datetime | None) -> None:
    """Register a worker."""
    process = worker.process
    row = (worker.id, process.host, process.boot, process.pid, process.born, worker.version, worker.embedder)
    await database.fetch(REGISTER, now, *row)


async def beat(database: Database, worker: WorkerId, report: HealthReport, now: datetime | None) -> bool:
    """Record a worker's heartbeat and health."""
    return await database.fetchrow(BEAT, now, write_report(report), worker) is not None


async def listing(database: Database, heartbeat: timedelta, now: datetime | None) -> list[Worker]:
    """List the workers."""
    return [_worker(row, heartbeat) for row in await database.fetch(LIST, now)]


def _worker(row: Mapping[str, Any], heartbeat: timedelta) -> Worker:
    missed = max(0, row["silent"] // heartbeat)
    process = Process(host=row["host"], boot=row["boot"], pid=row["pid"], born=row["born"])
    info = WorkerInfo(id=WorkerId(row["name"]), process=process, version=row["version"], embedder=row["embedder"])
    return Worker(
        info=info,
        started_at=row["started_at"],
        seen_at=row["seen_at"],
        missed_heartbeats=missed,
        alive=missed < MISSED_HEARTBEATS,
        report=read_report(row["report"]),
    )
