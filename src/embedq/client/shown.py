"""How a client's nouns look outside: the same words for HTTP and for the command line."""

from typing import Any

from embedq.attachment import Attached
from embedq.model import Answer, Collection, Hit


def answer(found: Answer) -> dict[str, Any]:
    """Show the answer to a search."""
    oldest = found.freshness.oldest_pending
    return {
        "hits": [_hit(hit) for hit in found.hits],
        "mode_used": found.mode_used.value,
        "reason": found.reason,
        "freshness": {
            "coverage": found.freshness.coverage,
            "pending": found.freshness.pending,
            "oldest_pending_seconds": None if oldest is None else oldest.total_seconds(),
            "trouble": found.freshness.trouble,
        },
    }


def collection(found: Collection) -> dict[str, Any]:
    """Show a collection the way it is declared."""
    declared = found.declaration
    return {
        "name": declared.name,
        "text_from": None if declared.text_from is None else list(declared.text_from),
        "embedder": str(declared.embedder),
        "space": str(found.space),
        "dimensions": found.space.dimensions,
        "priority": declared.priority.name.lower(),
        "retry": {
            "base_seconds": declared.retry.base.total_seconds(),
            "factor": declared.retry.factor,
            "cap_seconds": declared.retry.cap.total_seconds(),
            "jitter": declared.retry.jitter,
            "max_attempts": declared.retry.max_attempts,
        },
        "created_at": found.created_at,
    }


def attached(found: Attached) -> dict[str, Any]:
    """Show an attached table and how far it is."""
    table = found.attachment
    return {
        "collection": found.collection,
        "table": table.table,
        "key": list(table.key),
        "text": list(table.text),
        "into": table.into,
        "priority": table.priority,
        "tenant": table.tenant,
        "attributes": list(table.attributes),
        "rows": found.rows,
        "seen": found.seen,
        "walking": found.walking,
        "noted": found.noted,
        "refused": {"count": found.refusals, "some": dict(found.refused)},
        "given_up": found.given_up,
        "adopted": found.adopted,
        "problem": found.problem,
        "row_security": found.row_security,
        "trusts": found.trusts,
    }


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "id": hit.id,
        "score": float(hit.score),
        "text": hit.text,
        "attributes": dict(hit.attributes),
        "stale": bool(hit.stale),
    }
