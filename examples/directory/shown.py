"""How entries, searches and dead letters look to callers."""

from collections.abc import Mapping, Sequence
from typing import Any

from embedq.model import Job

from .directory import COLLECTION, Found, Listing
from .entries import Entry

JOB_TYPE = "generate-embedding"


def listing(found: Listing) -> dict[str, Any]:
    """Show an entry, and where its vector stands."""
    entry, embedding = found
    return {
        **dict(entry),
        "embedding_status": embedding and embedding.status,
        "embedding_reason": embedding and embedding.reason,
        "job_id": embedding and embedding.job_id,
    }


def with_vector(found: Listing) -> dict[str, Any]:
    """Show an entry and its vector."""
    _, embedding = found
    return {**listing(found), "embedding": embedding and embedding.vector}


def search(found: Found) -> dict[str, Any]:
    """Show what was found, how, and why not otherwise."""
    return {
        "hits": [
            {**dict(entry), "score": hit and float(hit.score), "stale": bool(hit and hit.stale)}
            for entry, hit in found.hits
        ],
        "mode_used": found.answer.mode_used,
        "reason": found.answer.reason,
        "coverage": found.answer.freshness.coverage,
    }


def dead_letter(job: Job, entry: Entry | None) -> dict[str, Any]:
    """Show a job that was given up on, beside the entry as it is now; None: it is gone."""
    error = job.error
    return {
        "job_id": job.id,
        "job_type": JOB_TYPE,
        "business_id": job.record_id,
        "entry": entry and dict(entry),
        "reason": job.reason,
        "error": error and {part: getattr(error, part) for part in ("category", "code", "message", "stack")},
        "attempts": job.attempts,
        "first_attempt_at": job.first_attempt_at,
        "last_attempt_at": job.last_attempt_at,
    }


def causes(groups: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Show our dead letters by what they died of, the most frequent first."""
    ours = [dict(group) for group in groups if group["collection"] == COLLECTION]
    return {"total": sum(group["count"] for group in ours), "causes": ours}
