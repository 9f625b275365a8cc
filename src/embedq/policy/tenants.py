"""Tenants of records: the only place where they are compared.

A tenant is a filter, not access control: any caller may leave it out. When keys are bound to tenants, the key's
tenant is what is compared here.
"""

from collections.abc import Sequence

from embedq.errors import Conflict
from embedq.model import Job
from embedq.policy.texts import check_id


def check_tenant(asked: object) -> None:
    """Refuse an invalid tenant; None means no filter."""
    if asked is not None:
        check_id(asked, what="tenant")


def belongs(tenant: str | None, asked: str | None) -> bool:
    """Say whether a record of this tenant is visible to a caller that asked for `asked`."""
    return asked is None or tenant == asked


def owned(job: Job | None, asked: str | None) -> Job | None:
    """Return a job if it is visible to a caller that asked for this tenant, else None."""
    return job if job is not None and belongs(job.tenant, asked) else None


def anothers(ids: Sequence[str]) -> Conflict:
    """Build the error for a write of records that belong to another tenant."""
    said = f"{len(ids)} ids belong to another tenant, so nothing is stored: {list(ids[:5])}"
    return Conflict(said, records=ids)
