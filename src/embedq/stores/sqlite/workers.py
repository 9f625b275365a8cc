"""The registry of workers."""

import sqlite3
from datetime import timedelta
from typing import Any

from embedq.model import HealthReport, Process, Worker, WorkerId, WorkerInfo
from embedq.policy.jobs import MISSED_HEARTBEATS
from embedq.stores.columns import read_report, write_report
from embedq.stores.sqlite.moments import span, when
from embedq.stores.sqlite.transaction import Transaction

DAY = 86_400_000

NUMBER = "SELECT id FROM embedq_worker WHERE name = ?"
REGISTER = """
INSERT INTO embedq_worker (name, host, boot, pid, born, version, embedder, started_at, seen_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8)
ON CONFLICT (name) DO UPDATE SET host = ?2, boot = ?3, pid = ?4, born = ?5, version = ?6, embedder = ?7,
  started_at = ?8, seen_at = ?8, gone = 0
"""
BEAT = "UPDATE embedq_worker SET seen_at = ?, report = ?, gone = 0 WHERE name = ?"
LEAVE = "UPDATE embedq_worker SET gone = 1 WHERE name = ?"

# Registered workers that were seen recently, and those that still hold a lease.
LIST = """
SELECT name, host, boot, pid, born, version, embedder, started_at, seen_at, report FROM embedq_worker
WHERE (gone = 0 AND seen_at > ?) OR id IN (SELECT worker FROM embedq_lease) ORDER BY id
"""

# Workers that were not seen for long and hold nothing. Their jobs stay, without a worker's name.
FORGET = "DELETE FROM embedq_worker WHERE seen_at < ? AND id NOT IN (SELECT worker FROM embedq_lease)"


def number_of(db: sqlite3.Connection, worker: WorkerId, now: int) -> int:
    """Find a worker's number; one that never registered gets one, and is listed only while it holds a lease."""
    row = db.execute(NUMBER, (worker,)).fetchone()
    if row is None:
        db.execute(REGISTER, (worker, "", "", 0, "", "", "", now))
        db.execute(LEAVE, (worker,))
        row = db.execute(NUMBER, (worker,)).fetchone()
    return int(row[0])


def register(tx: Transaction, worker: WorkerInfo, now: int) -> None:
    """Register a worker."""
    process = worker.process
    row = (worker.id, process.host, process.boot, process.pid, process.born, worker.version, worker.embedder, now)
    tx.db.execute(REGISTER, row)


def beat(tx: Transaction, worker: WorkerId, report: HealthReport, now: int) -> bool:
    """Record a worker's heartbeat and health."""
    return tx.db.execute(BEAT, (now, write_report(report), worker)).rowcount == 1


def leave(tx: Transaction, worker: WorkerId) -> None:
    """Unregister a worker; its jobs keep its name."""
    tx.db.execute(LEAVE, (worker,))


def listing(db: sqlite3.Connection, heartbeat: timedelta, now: int) -> list[Worker]:
    """List the workers."""
    return [_worker(row, span(heartbeat), now) for row in db.execute(LIST, (now - DAY,))]


def _worker(row: tuple[Any, ...], heartbeat: int, now: int) -> Worker:
    name, host, boot, pid, born, version, embedder, started_at, seen_at, report = row
    missed = max(0, (now - seen_at) // heartbeat)
    process = Process(host=host, boot=boot, pid=pid, born=born)
    return Worker(
        info=WorkerInfo(id=WorkerId(name), process=process, version=version, embedder=embedder),
        started_at=when(started_at),
        seen_at=when(seen_at),
        missed_heartbeats=missed,
        alive=missed < MISSED_HEARTBEATS,
        report=read_report(report),
    )
