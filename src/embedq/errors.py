"""The kinds of error. Adapters translate theirs into these and keep the original as the cause."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import ClassVar


class EmbedqError(Exception):
    """Everything embedq raises on purpose. The message says what happened and what to do."""

    code: ClassVar[str] = "error"  # stable: programs may compare it


class EmbedderError(EmbedqError):
    """An embedder could not answer."""

    def __init__(self, message: str, *, code: str | None = None) -> None:
        """Keep the provider's code, such as an HTTP status."""
        super().__init__(message)
        self.provider_code = code or type(self).code


class Transient(EmbedderError):
    """It may succeed later: timeouts, 5xx, a wrong count, a truncated body, NaN."""

    code = "transient"


class Permanent(EmbedderError):
    """This input will never be accepted: 400, 413, 422."""

    code = "permanent"


class Unavailable(EmbedderError):
    """The embedder's own fault, no text's: refused connections, no such model, wrong dimensions."""

    code = "embedder_unavailable"


class Critical(EmbedderError):
    """Nothing works until an operator acts: a bad key, a bad setting."""

    code = "critical"


class NotNow(EmbedderError):
    """The provider asks to wait. Not a failure."""

    code = "not_now"

    def __init__(self, message: str, *, retry_after: timedelta | None = None, code: str | None = "429") -> None:
        """Keep the requested wait, if there was one."""
        super().__init__(message, code=code)
        self.retry_after = retry_after


class Refused(EmbedqError):
    """The caller's request is not acceptable. Nothing was written."""

    code = "refused"


class Invalid(Refused):
    """Input that breaks a rule. Names every bad record by its position."""

    code = "invalid"

    def __init__(self, message: str, *, problems: Mapping[int, str] | None = None) -> None:
        """Keep what is wrong with which record."""
        super().__init__(message)
        self.problems = dict(problems or {})


class Forbidden(Refused):
    """The caller may not do this; the operator may."""

    code = "forbidden"


class NotFound(Refused):
    """No such collection, record or job."""

    code = "not_found"


class Conflict(Refused):
    """It conflicts with stored data: another tenant's id, another embedder over existing records."""

    code = "conflict"

    def __init__(self, message: str, *, records: Collection[str] = ()) -> None:
        """Keep the ids of the records that conflict."""
        super().__init__(message)
        self.records = frozenset(records)


class TooLarge(Refused):
    """Over a size limit."""

    code = "too_large"


class SearchUnavailable(Refused):
    """There is no query vector, and the caller asked for a semantic search only."""

    code = "search_unavailable"


class SettingsError(EmbedqError):
    """A setting is missing or wrong: its name, its value and its bounds."""

    code = "settings"


class StoreError(EmbedqError):
    """The database failed. Nothing was written; it may succeed later."""

    code = "store_unavailable"


class StoreUnreachable(StoreError):
    """No answer: the database is down, is starting, or is not reachable over the network."""


class StoreBusy(StoreError):
    """Another open transaction holds a lock on what is to be written."""

    code = "store_busy"


class StoreFull(StoreError):
    """The disk is full."""

    code = "store_full"


class StoreReadOnly(StoreError):
    """The database cannot be written to."""

    code = "store_read_only"


class StoreUnusable(StoreError):
    """An operator must act: corrupt, not a database, from a newer version, or missing."""

    code = "store_unusable"


class StoreForbidden(StoreUnusable):
    """The database's role lacks a right: another role, or a grant, is needed."""
