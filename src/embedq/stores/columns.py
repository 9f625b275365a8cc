"""How nouns are noted in columns, alike in every database that keeps text."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from embedq.errors import Conflict, Invalid
from embedq.model import Fault, Health, HealthReport, JobStatus, Reason, RetryPolicy, Space
from embedq.policy import jobs as rules

NO_BOUND = 1 << 62
OPEN, COMPLETED, FAILED, CANCELLED = 0, 2, 3, 4  # a job's status; an open one is pending or under a lease
_ENDED = {COMPLETED: JobStatus.COMPLETED, FAILED: JobStatus.FAILED, CANCELLED: JobStatus.CANCELLED}


def read_status(noted: int | None, *, queued: bool = True) -> JobStatus | None:
    """Read a job's status; of an open one its place must be known: is it in the line or waiting? None: no job."""
    if noted is None:
        return None
    return _ENDED.get(noted, JobStatus.PENDING if queued else JobStatus.PROCESSING)


def needs_job(status: int | None, reason: str | None, same_text: object, given_up: object) -> bool:
    """Ask the rules whether a live record without a current vector is given a job, by what its columns say [10]."""
    said = None if reason is None else Reason(reason)
    return rules.needs_job(read_status(status), reason=said, same_text=bool(same_text), given_up=bool(given_up))


def revivable(*, named: bool) -> str:
    """Write which jobs `j` of live records the rules let be armed again by hand."""
    fit = [noted for noted in _ENDED if rules.can_revive(read_status(noted), live=True, named=named)]
    return f"j.status = {fit[0]}" if len(fit) == 1 else f"j.status IN {tuple(fit)}"


def write_fault(fault: Fault) -> str:
    """Write an error as it is kept with a job; without NUL, which not every database can hold."""
    noted = {"category": fault.category, "code": fault.code, "message": fault.message, "stack": fault.stack}
    return json.dumps({name: said and said.replace("\0", "") for name, said in noted.items()}, ensure_ascii=False)


def read_fault(noted: str | None) -> Fault | None:
    """Read an error that was kept with a job."""
    return None if noted is None else Fault(**json.loads(noted))


@lru_cache(maxsize=64)
def read_retry(noted: str) -> RetryPolicy:
    """Read a retry policy."""
    found = json.loads(noted)
    return RetryPolicy(
        base=timedelta(seconds=found["base"]),
        factor=found["factor"],
        cap=timedelta(seconds=found["cap"]),
        jitter=found["jitter"],
        max_attempts=found["max_attempts"],
    )


def write_retry(retry: RetryPolicy) -> str:
    """Write a retry policy."""
    spans = {"base": retry.base.total_seconds(), "cap": retry.cap.total_seconds()}
    return json.dumps({**spans, "factor": retry.factor, "jitter": retry.jitter, "max_attempts": retry.max_attempts})


@lru_cache(maxsize=64)
def read_text_from(noted: str | None) -> tuple[str, ...] | None:
    """Read the attribute names a text is made from."""
    return None if noted is None else tuple(json.loads(noted))


def write_text_from(text_from: tuple[str, ...] | None) -> str | None:
    """Write the attribute names a text is made from."""
    return None if text_from is None else json.dumps(text_from, ensure_ascii=False)


def read_report(noted: str) -> HealthReport:
    """Read how a worker fares."""
    found: Mapping[str, Any] = json.loads(noted)
    if not found:
        return HealthReport()
    success = found["last_success_at"]
    changes = {
        "health": Health(found["health"]),
        "last_success_at": success and datetime.fromisoformat(success),
        "halted": tuple(found["halted"]),
    }
    known = {name: value for name, value in found.items() if name in HealthReport.__dataclass_fields__}
    return HealthReport(**{**known, **changes})  # a newer embedq may have said more


def write_report(report: HealthReport) -> str:
    """Write how a worker fares."""
    noted = {name: getattr(report, name) for name in HealthReport.__dataclass_fields__}
    noted["last_success_at"] = report.last_success_at and report.last_success_at.isoformat()
    noted["error_patterns"] = dict(report.error_patterns)
    noted["troubles"] = dict(report.troubles)
    noted["halted"] = list(report.halted)
    return json.dumps(noted)


def check_space(wanted: Space | None, collection: str, found: tuple[str, str, int, int]) -> None:
    """Refuse a vector of another space than the collection's, which is given as provider, model, asked and version."""
    if wanted is None:
        return
    asked = wanted.embedder
    if (asked.provider, asked.model, asked.dimensions or 0, wanted.version) != found:
        raise Conflict(f"collection {collection!r} has another embedder than {asked} now: ask again")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Which stretch of a list of records is wanted."""

    status: str | None
    tenant: str | None
    limit: int
    cursor: str | None
    max_bytes: int | None

    @property
    def most(self) -> int:
        """The bytes at which a page ends."""
        return NO_BOUND if self.max_bytes is None else self.max_bytes


def number(cursor: str | None) -> int:
    """Read a cursor that is a number."""
    if cursor is None:
        return 0
    if not cursor.isdecimal() or int(cursor) >= 1 << 63:
        raise Invalid(f"{cursor!r} is not a cursor of this list: take next_cursor from the answer before")
    return int(cursor)
