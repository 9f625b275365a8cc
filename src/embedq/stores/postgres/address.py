"""Where the database is, and how to connect to it."""

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit, urlunsplit

from embedq.errors import SettingsError
from embedq.settings.addresses import HIDDEN, passwords

SCHEMES = ("postgresql", "postgres")
POOLER = "pooler"
LAST_PORT = 65_535
ON, OFF = "transaction", "none"
WRITE = (
    "EMBEDQ_URL: write postgresql://user@host/database; in a password, / is written %2F, @ %40, # %23, ? %3F and : %3A"
)


@dataclass(frozen=True, slots=True)
class Address:
    """A database's URL as the driver expects it. It contains the password: it is never shown."""

    dsn: str
    shown: str  # without user and password
    pooler: bool  # a transaction pooler is in between: no session of our own
    hosts: list[str] = field(hash=False, compare=False)  # a URL for each; the one that answered last comes first
    secrets: tuple[str, ...] = ()

    def hide(self, said: str) -> str:
        """Remove secrets from the driver's messages."""
        for secret in self.secrets:
            said = said.replace(secret, HIDDEN)
        return said

    def prefer(self, host: str) -> None:
        """Try this host first from now on: an unreachable one delays every connection that tries it first."""
        if self.hosts[0] != host:
            self.hosts[:] = [host, *(other for other in self.hosts if other != host)]

    def __repr__(self) -> str:
        """Show it without the password."""
        return f"Address({self.shown})"


def parse(url: str, *, pooler: bool = False) -> Address:
    """Parse a URL; `pooler=transaction` in it is ours and overrides the setting, the rest is passed to the driver."""
    parts = _split(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    asked = dict(query).get(POOLER, ON if pooler else OFF)
    if asked not in {ON, OFF}:
        raise SettingsError(f"EMBEDQ_URL: what {POOLER}= says is not known: write {POOLER}={ON}, or leave it out")
    rest = urlencode([(name, value) for name, value in query if name != POOLER])
    user, at, hosts = parts.netloc.rpartition("@")
    for port in (*map(_port, hosts.split(",")), *dict(query).get("port", "").split(",")):
        if port and not (port.isascii() and port.isdigit() and 0 < int(port) <= LAST_PORT):
            # It is not shown: it may be part of a password that contains a slash.
            raise SettingsError(
                f"EMBEDQ_URL: the port is not a number from 1 to {LAST_PORT}; in a password, / is written %2F and @ %40"
            )
    urls = [
        urlunsplit(("postgresql", f"{user}{at}{host}", parts.path, rest, "")) for host in (hosts, *hosts.split(","))
    ]
    return Address(urls[0], f"{hosts}{parts.path}", asked == ON, urls[1:], tuple(passwords(url)))


def _split(url: str) -> SplitResult:
    """Split a URL, and refuse one whose password would be parsed as something else; it is never shown."""
    try:
        parts = urlsplit(url)
    except ValueError:  # its message would show the URL
        raise SettingsError(WRITE) from None
    user, _, _ = parts.netloc.rpartition("@")
    if any(";" in value for _, value in parse_qsl(parts.query, keep_blank_values=True)):
        raise SettingsError("EMBEDQ_URL: separate its parameters by &; a ; within a value is not taken")
    names = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    odd = "@" in user + parts.path + "".join(names) or parts.fragment
    if parts.scheme.partition("+")[0] not in SCHEMES or not url.partition(":")[2].startswith("//") or odd:
        raise SettingsError(WRITE)
    return parts


def _port(host: str) -> str:
    """Read the port after a host name, or after the brackets of an IPv6 address."""
    return host.rpartition("]")[2].partition(":")[2]
