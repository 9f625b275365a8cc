"""What PostgreSQL's errors mean."""

import re
import shlex

import asyncpg

from embedq.errors import (
    Conflict,
    EmbedqError,
    Invalid,
    StoreBusy,
    StoreError,
    StoreForbidden,
    StoreFull,
    StoreReadOnly,
    StoreUnreachable,
    StoreUnusable,
    TooLarge,
)

LOST = (OSError, EOFError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError)  # never got an answer
LOST_STATES = frozenset(
    {"57P01", "57P02", "57P03", "57P05", "25P03", "53300", "08000", "08001", "08003", "08004", "08006", "08P01"}
)
AGAIN_STATES = frozenset({"40001", "40P01"})  # rolled back by the server: only a retry is needed
NOT_READ_COMMITTED = "EQ003"  # raised by our own functions
ABSENT_STATES = frozenset({"3F000", "42P01", "42883", "42704", "42703"})

# Which SQLSTATEs map to which of our errors, and their messages.
KINDS: tuple[tuple[frozenset[str], type[EmbedqError], str], ...] = (
    (
        frozenset({"53100"}),
        StoreFull,
        "the disk of {shown} is full: nothing was written; free some space",
    ),
    (
        frozenset({"25006"}),
        StoreReadOnly,
        "{shown} takes no writes: is it a standby? Name all hosts and target_session_attrs=read-write",
    ),
    (
        frozenset({"55P03"}),
        StoreBusy,
        "a transaction that is open on {shown} holds what is to be written: nothing was; try again when it has ended",
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
    (
        ABSENT_STATES,
        StoreUnusable,
        (
            "{shown} lacks what this version of embedq needs ({error}): run `embedq init`, or the same version "
            "everywhere if a newer one was installed"
        ),
    ),
    (
        frozenset({"28000", "28P01"}),
        StoreUnusable,
        "{shown} refuses us ({error}): check user, password and the server's pg_hba.conf",
    ),
    (frozenset({"42501"}), StoreForbidden, "{shown} refuses us ({error}): {grant}"),
    (
        frozenset({"22021", "22P05"}),
        Invalid,
        "a text holds a character that PostgreSQL cannot store, such as NUL",
    ),
    (  # a number out of range, a word invalid for its type, a value nested too deep
        frozenset({"22003", "22008", "22P02", "54001"}),
        Invalid,
        "a value is none that PostgreSQL can take ({error})",
    ),
    (
        frozenset({"54000"}),
        TooLarge,
        "a record is more than PostgreSQL can hold ({error}): nothing was written; make it shorter",
    ),
    (frozenset({"EQ006"}), Conflict, "nothing was written ({error})"),  # raised by our own function
    (  # raised by our own function
        frozenset({"EQ001"}),
        Conflict,
        "ids belong to another tenant, so nothing is stored: {error}",
    ),
)
POOLER = "{shown} is a pooler ({error}): set EMBEDQ_PG_POOLER=1, or add pooler=transaction to the URL"
UNSENDABLE = "a value is none that PostgreSQL can take ({error})"
LOST_SAID = "{shown} cannot be reached ({error}): check that it runs, and the URL"

# Errors of a refused connection: the URL is wrong, not the schema.
REFUSED: tuple[tuple[frozenset[str], str], ...] = (
    (
        frozenset({"3D000"}),
        "{shown} cannot be opened ({error}): run `createdb {named}`, or name another database at the URL's end",
    ),
    (
        frozenset({"42704", "22023", "42602"}),
        "EMBEDQ_URL: {shown} does not take a parameter of the URL ({error}): correct it, or leave it out",
    ),
)
QUOTED = re.compile(r"^(invalid input for query argument \$\d+).*")
NAMED = re.compile(r"database \"(.+)\" does not exist")

ROLES = (
    "if it is embedq's, GRANT embedq_reader, embedq_writer or embedq_worker to this user, as it reads, writes or "
    "works; `embedq init --roles` makes them"
)

# Which grant is missing, by the server's message.
GRANTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (  # quoted when the connection is refused, and only then
        re.compile('permission denied for database "(.+)"'),
        "as the database's owner, GRANT CONNECT ON DATABASE {0} to this user",
    ),
    (
        re.compile("permission denied for database (.+)"),
        "`embedq init` makes a schema; as the database's owner, GRANT CREATE ON DATABASE {0} to this user",
    ),
    (re.compile("permission denied for (?:schema embedq|table|view|sequence|function)"), ROLES),
    (
        re.compile("permission denied for schema (.+)"),
        "if vectors or an attached table live there, GRANT USAGE ON SCHEMA {0} to this user",
    ),
    (re.compile("must be owner of"), "connect as the role that ran `embedq init`, or as one that is made it at login"),
)
ANY_GRANT = "check the grants of this user"

Fault = (asyncpg.PostgresError, *LOST)


def is_lost(error: BaseException) -> bool:
    """Say whether the connection failed, not the statement."""
    if isinstance(error, asyncpg.PostgresError):
        return state_of(error) in LOST_STATES and not _is_from_a_pooler(error)
    return isinstance(error, LOST) and not _is_unsendable(error)


def _is_unsendable(error: BaseException) -> bool:
    """Say whether the driver refused a value, or the number of values, before anything was sent."""
    return isinstance(error, asyncpg.DataError) or (
        isinstance(error, asyncpg.InterfaceError) and "query arguments" in str(error)
    )


def is_undone(error: BaseException) -> bool:
    """Say whether the server rolled back a transaction that need only be retried."""
    return state_of(error) in AGAIN_STATES


def state_of(error: BaseException) -> str:
    """Read PostgreSQL's SQLSTATE."""
    return str(getattr(error, "sqlstate", None) or "")


def translated(error: BaseException, shown: str, *, connecting: bool = False) -> EmbedqError:
    """Translate an error of a statement or of a connection into one of ours."""
    kind, said = (connecting and _refusal_of(error)) or _kind_of(error)
    return kind(said.format(shown=shown, error=_brief(error), named=_named(error), grant=_grant(error)))


def _refusal_of(error: BaseException) -> tuple[type[EmbedqError], str] | None:
    state = state_of(error)
    return next(((StoreUnusable, said) for states, said in REFUSED if state in states), None)


def _named(error: BaseException) -> str:
    """Read the name of the database, quoted for a shell."""
    found = NAMED.search(str(error))
    return shlex.quote(found[1]) if found else "NAME"


def _grant(error: BaseException) -> str:
    """Return what has to be granted, if known."""
    known = ((pattern.search(str(error)), advice) for pattern, advice in GRANTS)
    return next((advice.format(*found.groups()) for found, advice in known if found), ANY_GRANT)


def _kind_of(error: BaseException) -> tuple[type[EmbedqError], str]:
    if is_lost(error):
        return StoreUnreachable, LOST_SAID
    if _is_from_a_pooler(error):
        return StoreUnusable, POOLER
    state = state_of(error)
    known = ((kind, said) for states, kind, said in KINDS if state in states)
    otherwise = (Invalid, UNSENDABLE) if _is_unsendable(error) else (StoreError, "{shown}: {error}")
    return next(known, otherwise)


def _is_from_a_pooler(error: BaseException) -> bool:
    """Say whether a pooler refuses a session setting, which it cannot keep."""
    return state_of(error) == "08P01" and "startup parameter" in str(error)


def _brief(error: BaseException) -> str:
    """Name an error in one line; for a value that the driver could not send, only which one it was."""
    said = str(error).splitlines()[0] if str(error) else "no more is known"
    quoted = QUOTED.match(said)
    return f"{type(error).__name__}: {quoted[1] if quoted else said}"
