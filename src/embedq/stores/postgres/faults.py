"""What PostgreSQL's errors mean."""

import asyncpg

from embedq.errors import Conflict, EmbedqError, Invalid, StoreError, StoreFull, StoreReadOnly, StoreUnusable

LOST = (OSError, EOFError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)  # never came to an answer
LOST_STATES = frozenset(
    {"57P01", "57P02", "57P03", "57P05", "53300", "08000", "08001", "08003", "08004", "08006", "08P01"}
)
AGAIN_STATES = frozenset({"40001", "40P01"})  # undone by the server: doing it again is all it asks
DAMAGED_STATES = frozenset({"XX001", "XX002"})
ABSENT_STATES = frozenset({"3D000", "3F000", "42P01", "42883", "42704", "42703"})
REFUSED_STATES = frozenset({"28000", "28P01", "42501"})
TEXT_STATES = frozenset({"22021", "22P05"})
TENANT_STATE = "EQ001"  # raised by our own function

Fault = (asyncpg.PostgresError, *LOST)


def is_lost(error: BaseException) -> bool:
    """Say whether the connection, not the statement, is to blame."""
    if isinstance(error, asyncpg.PostgresError):
        return state_of(error) in LOST_STATES
    return isinstance(error, LOST) and not isinstance(error, asyncpg.DataError)


def is_undone(error: BaseException) -> bool:
    """Say whether the server undid a transaction that need only be done again."""
    return state_of(error) in AGAIN_STATES


def state_of(error: BaseException) -> str:
    """Read PostgreSQL's own code."""
    return str(getattr(error, "sqlstate", None) or "")


def translated(error: BaseException, shown: str) -> EmbedqError:  # noqa: PLR0911 one line per kind
    """Say which of our kinds an error is."""
    state = state_of(error)
    if is_lost(error):
        return StoreError(f"{shown} cannot be reached ({_brief(error)}): check that it runs; work goes on by itself")
    if state == "53100":
        return StoreFull(f"the disk of {shown} is full: nothing was written; free some space, work goes on by itself")
    if state == "25006":
        return StoreReadOnly(
            f"{shown} takes no writes: is it a standby? Name all hosts and target_session_attrs=read-write"
        )
    if state in DAMAGED_STATES:
        return StoreUnusable(f"{shown} is damaged ({_brief(error)}): stop all processes and restore it")
    if state in ABSENT_STATES:
        return StoreUnusable(f"{shown} lacks what embedq needs ({_brief(error)}): run `embedq init`")
    if state in REFUSED_STATES:
        return StoreUnusable(f"{shown} refuses us ({_brief(error)}): check user, password and grants")
    if state in TEXT_STATES:
        return Invalid("a text holds a character that PostgreSQL cannot store, such as NUL")
    if state == TENANT_STATE:
        return Conflict(f"ids belong to another tenant, so nothing is stored: {_brief(error)}")
    return StoreError(f"{shown}: {_brief(error)}")


def _brief(error: BaseException) -> str:
    """Name an error in one line."""
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no more is known'}"
