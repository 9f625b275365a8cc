"""How values are encoded in columns, the same in every database that stores text."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from embedq.conditions import Filter
from embedq.errors import Conflict, Invalid
from embedq.model import Fault, Health, HealthReport, JobStatus, Reason, RetryPolicy, Space
from embedq.policy import jobs as rules

NO_BOUND = 1 << 62
OPEN, COMPLETED, FAILED, CANCELLED = 0, 2, 3, 4  # a job's status; an open job is pending or leased
_ENDED = {COMPLETED: JobStatus.COMPLETED, FAILED: JobStatus.FAILED, CANCELLED: JobStatus.CANCELLED}


def read_status(noted: int | None, *, queued: bool = True) -> JobStatus | None:
    """Read a job's status; an open job also needs to know whether it is ready, waiting or leased. None: no job."""
    if noted is None:
        return None
    return _ENDED.get(noted, JobStatus.PENDING if queued else JobStatus.PROCESSING)


def needs_job(status: int | None, reason: str | None, same_text: object, given_up: object) -> bool:
    """Ask the rules whether a live record without a current vector gets a job, given its columns [10]."""
    said = None if reason is None else Reason(reason)
    return rules.needs_job(read_status(status), reason=said, same_text=bool(same_text), given_up=bool(given_up))


def revivable(*, named: bool) -> str:
    """Write the condition for jobs `j` of live records that the rules allow to be armed again by hand."""
    fit = [noted for noted in _ENDED if rules.can_revive(read_status(noted), live=True, named=named)]
    return f"j.status = {fit[0]}" if len(fit) == 1 else f"j.status IN {tuple(fit)}"


def read_attributes(noted: str) -> Any:  # noqa: ANN401 whatever JSON holds
    """Read a record's attributes; a number of more digits than Python converts, which SQL can store, becomes text."""
    try:
        return json.loads(noted)
    except ValueError:
        return json.loads(noted, parse_int=_digits)


def _digits(written: str) -> int | str:
    try:
        return int(written)
    except ValueError:
        return written


def write_fault(fault: Fault) -> str:
    """Write an error as stored with a job; without NUL, which not every database can store."""
    noted = {"category": fault.category, "code": fault.code, "message": fault.message, "stack": fault.stack}
    return json.dumps({name: said and said.replace("\0", "") for name, said in noted.items()}, ensure_ascii=False)


def read_fault(noted: str | None) -> Fault | None:
    """Read an error stored with a job."""
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
    """Read the attribute names that a text is made from."""
    return None if noted is None else tuple(json.loads(noted))


def write_text_from(text_from: tuple[str, ...] | None) -> str | None:
    """Write the attribute names that a text is made from."""
    return None if text_from is None else json.dumps(text_from, ensure_ascii=False)


def read_report(noted: str) -> HealthReport:
    """Read a worker's health report."""
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
    return HealthReport(**{**known, **changes})  # a newer embedq may report more fields


def write_report(report: HealthReport) -> str:
    """Write a worker's health report."""
    noted = {name: getattr(report, name) for name in HealthReport.__dataclass_fields__}
    noted["last_success_at"] = report.last_success_at and report.last_success_at.isoformat()
    noted["error_patterns"] = dict(report.error_patterns)
    noted["troubles"] = dict(report.troubles)
    noted["halted"] = list(report.halted)
    return json.dumps(noted)


def check_space(wanted: Space | None, collection: str, found: tuple[str, str, int, int]) -> None:
    """Refuse a vector of a space other than the collection's, given as provider, model, asked and version."""
    if wanted is None:
        return
    asked = wanted.embedder
    if (asked.provider, asked.model, asked.dimensions or 0, wanted.version) != found:
        raise Conflict(f"collection {collection!r} has another embedder than {asked} now: ask again")


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """Which page of a list of records is wanted."""

    status: str | None
    tenant: str | None
    wanted: Filter | None
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
