"""A store that records its calls, in a form that fits into a report."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from embedq.model import Ask, Done, Failed, Lease, NewRecord, Released, Retry, Skipped
from embedq.ports import Store

READS = {"jobs", "counts", "get", "missing", "known", "recount"}  # calls that only read


class RecordingStore:
    """Wraps a store and records each call that changes it."""

    def __init__(self, store: Store, name: str, calls: list[str]) -> None:
        """Record the calls of this store, under this name."""
        self._store = store
        self._name = name
        self._calls = calls

    def __getattr__(self, act: str) -> Callable[..., Awaitable[Any]]:
        """Pass a call on, and record it."""
        call: Callable[..., Awaitable[Any]] = getattr(self._store, act)

        def recorded(*values: object, **options: object) -> Awaitable[Any]:
            if act not in READS:
                words = [shown(value) for value in values]
                words += [f"{option}={shown(value)}" for option, value in options.items() if value is not None]
                self._calls.append(f"{self._name}.{act}({', '.join(words)})")
            return call(*values, **options)

        return recorded


def shown(value: object) -> str:
    """Show a value as short as possible, but unambiguous."""
    match value:
        case Lease():
            words = f"job {value.job_id} token {value.token} {value.text!r}"
        case NewRecord():
            words = f"{value.id}={value.text!r}" + (f" {value.priority.name}" if value.priority is not None else "")
        case Ask():
            words = f"{value.worker} limit {value.limit} of {list(value.spaces)}{' ahead' * value.prefetch}"
        case datetime():
            words = f"{value:%d.%m. %H:%M:%S}"
        case Done() | Retry() | Failed() | Released() | Skipped():
            words = f"{type(value).__name__} {shown(value.lease)} {getattr(value, 'after', '')}".strip()
        case list() | tuple():
            words = f"[{', '.join(map(shown, value))}]"
        case _:
            words = str(value)
    return words
