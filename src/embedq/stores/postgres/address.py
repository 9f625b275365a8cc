"""Where the database is, and how it may be spoken to."""

import os
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from embedq.errors import SettingsError

SCHEMES = ("postgresql", "postgres")
POOLER = "pooler"
ON = {"1", "true", "yes", "transaction"}


@dataclass(frozen=True, slots=True)
class Address:
    """A database's URL as the driver wants it. It holds the password: it is never shown."""

    dsn: str
    shown: str  # without user and password
    pooler: bool  # a transaction pooler stands between: no session of our own

    def __repr__(self) -> str:
        """Show it without its password."""
        return f"Address({self.shown})"


def parse(url: str) -> Address:
    """Read a URL; `pooler=transaction` in it is ours, everything else is the driver's."""
    parts = urlsplit(url)
    if parts.scheme.partition("+")[0] not in SCHEMES:
        raise SettingsError("EMBEDQ_URL: write postgresql://user@host/database")
    query = parse_qsl(parts.query, keep_blank_values=True)
    asked = [value for name, value in query if name == POOLER] or [os.environ.get("EMBEDQ_PG_POOLER", "")]
    if asked[-1] not in {*ON, "", "0", "false", "no", "session", "none"}:
        raise SettingsError(f"EMBEDQ_URL: {POOLER}={asked[-1]!r}: write {POOLER}=transaction, or leave it out")
    rest = urlencode([(name, value) for name, value in query if name != POOLER])
    dsn = urlunsplit(("postgresql", parts.netloc, parts.path, rest, ""))
    shown = f"{parts.netloc.rpartition('@')[2]}{parts.path}"
    return Address(dsn, shown, asked[-1] in ON)
