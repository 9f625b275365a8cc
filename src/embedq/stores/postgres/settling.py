"""How a complete batch that is done is passed to the database function."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from embedq.model import Done, Lease, Outcome
from embedq.stores.postgres.keys import key_of
from embedq.stores.postgres.vectors import encode_all

# Encoded vectors, and which cover only the beginning of a text; None where there is nothing to pass.
Vectors = tuple[list[bytes | None] | None, list[bool] | None]

IS_CURRENT = attrgetter("current")  # of a lease; read a hundred times per batch


def whole(outcomes: Sequence[Outcome], leases: Sequence[Lease]) -> list[Any] | None:
    """Write a complete batch that is done, its jobs in their order; None if it is anything else."""
    if [outcome.lease for outcome in outcomes] != leases or set(map(type, outcomes)) != {Done}:
        return None
    lacking = [outcome.lease for outcome in outcomes if outcome.vector is None]  # type: ignore[union-attr]  # all are done
    if not all(map(IS_CURRENT, lacking)):
        return None
    keyed = sorted((key_of(lease.job_id), n) for n, lease in enumerate(leases))
    ordered = [outcomes[n] for _, n in keyed]
    vectors: Vectors = (None, None) if len(lacking) == len(leases) else _vectors(ordered)
    return [*_lease_of(ordered[0]), [key for key, _ in keyed], [outcome.lease.hash for outcome in ordered], *vectors]


def _lease_of(outcome: Outcome) -> tuple[int, int]:
    """Return what identifies a lease."""
    return outcome.lease.token, outcome.lease.nonce


def _vectors(ordered: Sequence[Outcome]) -> Vectors:
    """Write the vectors, and which of them cover only the beginning of a text; nothing where there is none."""
    found = [outcome.vector if isinstance(outcome, Done) else None for outcome in ordered]
    if all(vector is None for vector in found):
        return None, None
    cut = [isinstance(outcome, Done) and outcome.truncated for outcome in ordered]
    return encode_all(found), cut if any(cut) else None
