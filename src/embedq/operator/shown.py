"""How jobs and dead letters look outside: the same words for HTTP and for the command line."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from embedq.model import Job, Page, Rescued

PLAIN = (
    "id", "collection", "record_id", "space", "status", "attempts", "max_attempts", "crashes", "created_at",
    "started_at", "completed_at", "lease_until", "worker_id", "processing_time_ms", "reason",
)  # fmt: skip


def job(found: Job) -> dict[str, Any]:
    """Show a job."""
    error = found.error
    return {
        **{name: getattr(found, name) for name in PLAIN},
        "priority": found.priority.name.lower(),
        "error": None
        if error is None
        else {"category": error.category, "code": error.code, "message": error.message, "stack": error.stack},
    }


def dead_letter(found: Job) -> dict[str, Any]:
    """Show a failed job, with the span it was tried in."""
    return {
        **job(found),
        "first_attempt_at": found.first_attempt_at,
        "last_attempt_at": found.last_attempt_at,
    }


def jobs(page: Page[Job]) -> dict[str, Any]:
    """Show some jobs, and where the list goes on."""
    return {"jobs": [job(found) for found in page.items], "next_cursor": page.next_cursor}


def dead_letters(page: Page[Job]) -> dict[str, Any]:
    """Show some dead letters, and where the list goes on."""
    return {"jobs": [dead_letter(found) for found in page.items], "next_cursor": page.next_cursor}


def causes(groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Show dead letters grouped by their causes."""
    return {"total": sum(int(group["count"]) for group in groups), "causes": [dict(group) for group in groups]}


def requeued(rescued: Sequence[Rescued]) -> dict[str, Any]:
    """Show which jobs were taken back."""
    return {
        "requeued": {"total": len(rescued), "by_collection": dict(Counter(job.collection for job in rescued))},
        "jobs": [job.job_id for job in rescued],
    }
