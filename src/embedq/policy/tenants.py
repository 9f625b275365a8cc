"""Whose a record is, as far as a caller asks: the one place where a tenant is compared.

A tenant is a filter that callers give. It is no right: who may call at all may leave it out. When keys are bound to
tenants, the key's tenant is what is asked for here.
"""

from embedq.model import Job
from embedq.policy.texts import check_id


def check_tenant(asked: object) -> None:
    """Refuse what cannot be a tenant; None asks for nobody's in particular."""
    if asked is not None:
        check_id(asked, what="tenant")


def belongs(tenant: str | None, asked: str | None) -> bool:
    """Say whether a record of this tenant is there for who asks; to others it is as if it were not."""
    return asked is None or tenant == asked


def owned(job: Job | None, asked: str | None) -> Job | None:
    """Show a job to who asks for the tenant of its record; to others there is none."""
    return job if job is not None and belongs(job.tenant, asked) else None
