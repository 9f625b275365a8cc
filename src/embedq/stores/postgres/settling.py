"""How attempts end, as the database's function wants to be told."""

import json
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, assert_never

from embedq.model import Done, Failed, Lease, Outcome, Released, Retry, Skipped
from embedq.stores.columns import write_fault
from embedq.stores.postgres.keys import key_of
from embedq.stores.postgres.moments import seconds
from embedq.stores.postgres.vectors import encode_all

# Vectors as they are sent, and which stand for the beginning of a text only; None where there is nothing to say.
Vectors = tuple[list[bytes | None] | None, list[bool] | None]

IS_CURRENT = attrgetter("current")  # of a lease; a hundred are looked at per batch


def arguments(outcomes: Sequence[Outcome]) -> list[Any]:
    """Write outcomes in columns, sorted by lease and job: tokens, nonces, where each lease's jobs end, and the rest."""
    keyed = sorted((*_lease_of(outcome), key_of(outcome.lease.job_id), n) for n, outcome in enumerate(outcomes))
    ordered = [outcomes[n] for *_, n in keyed]
    tokens, nonces, ends = _batches(ordered)
    return [
        tokens,
        nonces,
        ends,
        [key for _, _, key, _ in keyed],
        [outcome.lease.hash for outcome in ordered],
        *_vectors(ordered),
        _judged(ordered),
    ]


def whole(outcomes: Sequence[Outcome], leases: Sequence[Lease]) -> list[Any] | None:
    """Write a whole batch that is done, its jobs in their order; None if it is not just that."""
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
    """Say by what a lease is known."""
    return outcome.lease.token, outcome.lease.nonce


def _batches(ordered: Sequence[Outcome]) -> tuple[list[int], list[int], list[int]]:
    """Find where one lease's jobs end and the next one's begin."""
    tokens, nonces, ends = list[int](), list[int](), list[int]()
    for place, outcome in enumerate(ordered, start=1):
        if not tokens or (tokens[-1], nonces[-1]) != _lease_of(outcome):
            tokens.append(outcome.lease.token)
            nonces.append(outcome.lease.nonce)
            ends.append(place)
        ends[-1] = place
    return tokens, nonces, ends


def _vectors(ordered: Sequence[Outcome]) -> Vectors:
    """Write the vectors, and which of them stand for the beginning of a text only; nothing where there is none."""
    found = [outcome.vector if isinstance(outcome, Done) else None for outcome in ordered]
    if all(vector is None for vector in found):
        return None, None
    cut = [isinstance(outcome, Done) and outcome.truncated for outcome in ordered]
    return encode_all(found), cut if any(cut) else None


def _judged(ordered: Sequence[Outcome]) -> list[str | None] | None:
    """Write the outcomes that must be judged one by one; None if all are done."""
    twice = _told_twice(ordered)
    written = [None if _is_plain(outcome) and not twice else _write(outcome) for outcome in ordered]
    return written if any(written) else None


def _told_twice(ordered: Sequence[Outcome]) -> bool:
    """Say whether a job stands here with more than one outcome: they are judged in their order."""
    return len({(_lease_of(outcome), outcome.lease.job_id) for outcome in ordered}) < len(ordered)


def _is_plain(outcome: Outcome) -> bool:
    """Say whether an outcome is done with a vector, or needs none."""
    return isinstance(outcome, Done) and (outcome.vector is not None or outcome.lease.current)


def _write(outcome: Outcome) -> str:
    match outcome:
        case Done():
            noted: dict[str, Any] = {"kind": "done"}
        case Retry():
            noted = {"kind": "retry", "fault": write_fault(outcome.fault), "after": seconds(outcome.after)}
        case Failed():
            noted = {"kind": "failed", "fault": write_fault(outcome.fault), "reason": outcome.reason}
        case Released():
            refused = None if outcome.refused is None else write_fault(outcome.refused)
            noted = {"kind": "released", "fault": refused, "after": seconds(outcome.after)}
        case Skipped():
            noted = {"kind": "skipped"}
        case _:
            assert_never(outcome)
    return json.dumps(noted, ensure_ascii=False)
