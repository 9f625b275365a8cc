"""What PostgreSQL's errors mean."""

import asyncpg

from embedq.errors import Conflict, EmbedqError, Invalid, StoreError, StoreFull, StoreReadOnly, StoreUnusable, TooLarge

LOST = (OSError, EOFError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)  # never came to an answer
LOST_STATES = frozenset(
    {"57P01", "57P02", "57P03", "57P05", "25P03", "53300", "08000", "08001", "08003", "08004", "08006", "08P01"}
)
AGAIN_STATES = frozenset({"40001", "40P01"})  # undone by the server: doing it again is all it asks
ABSENT_STATES = frozenset({"3D000", "3F000", "42P01", "42883", "42704", "42703"})

# Which states mean which of our kinds, and what is said of them.
KINDS: tuple[tuple[frozenset[str], type[EmbedqError], str], ...] = (
    (
        frozenset({"53100"}),
        StoreFull,
        "the disk of {shown} is full: nothing was written; free some space, work goes on by itself",
    ),
    (
        frozenset({"25006"}),
        StoreReadOnly,
        "{shown} takes no writes: is it a standby? Name all hosts and target_session_attrs=read-write",
    ),
    (
        frozenset({"57014"}),
        StoreError,
        "{shown} took too long ({error}): a transaction elsewhere may hold what is needed",
    ),
    (
        frozenset({"XX001", "XX002"}),
        StoreUnusable,
        "{shown} is damaged ({error}): stop all processes and restore it",
    ),
    (ABSENT_STATES, StoreUnusable, "{shown} lacks what embedq needs ({error}): run `embedq init`"),
    (
        frozenset({"28000", "28P01", "42501"}),
        StoreUnusable,
        "{shown} refuses us ({error}): check user, password and grants",
    ),
    (
        frozenset({"22021", "22P05"}),
        Invalid,
        "a text holds a character that PostgreSQL cannot store, such as NUL",
    ),
    (
        frozenset({"54000"}),
        TooLarge,
        "a record is more than PostgreSQL can hold ({error}): nothing was written; make it shorter",
    ),
    (  # raised by our own function
        frozenset({"EQ001"}),
        Conflict,
        "ids belong to another tenant, so nothing is stored: {error}",
    ),
)
POOLER = "{shown} is a pooler ({error}): set EMBEDQ_PG_POOLER=1, or add pooler=transaction to the URL"
LOST_SAID = "{shown} cannot be reached ({error}): check that it runs; work goes on by itself"

Fault = (asyncpg.PostgresError, *LOST)


def is_lost(error: BaseException) -> bool:
    """Say whether the connection, not the statement, is to blame."""
    if isinstance(error, asyncpg.PostgresError):
        return state_of(error) in LOST_STATES and not _is_from_a_pooler(error)
    return isinstance(error, LOST) and not isinstance(error, asyncpg.DataError)


def is_undone(error: BaseException) -> bool:
    """Say whether the server undid a transaction that need only be done again."""
    return state_of(error) in AGAIN_STATES


def state_of(error: BaseException) -> str:
    """Read PostgreSQL's own code."""
    return str(getattr(error, "sqlstate", None) or "")


def translated(error: BaseException, shown: str) -> EmbedqError:
    """Say which of our kinds an error is."""
    kind, said = _kind_of(error)
    return kind(said.format(shown=shown, error=_brief(error)))


def _kind_of(error: BaseException) -> tuple[type[EmbedqError], str]:
    if is_lost(error):
        return StoreError, LOST_SAID
    if _is_from_a_pooler(error):
        return StoreUnusable, POOLER
    state = state_of(error)
    known = ((kind, said) for states, kind, said in KINDS if state in states)
    return next(known, (StoreError, "{shown}: {error}"))


def _is_from_a_pooler(error: BaseException) -> bool:
    """Say whether a pooler refuses the settings of a session, which it cannot keep."""
    return state_of(error) == "08P01" and "startup parameter" in str(error)


def _brief(error: BaseException) -> str:
    """Name an error in one line."""
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no more is known'}"
