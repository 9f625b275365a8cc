"""Databases by the scheme of their URL: how each is opened, and what the doctor looks at beside it."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from embedq.errors import NotFound, SettingsError
from embedq.operator.probes import Probe, disk_probe
from embedq.policy.texts import Limits
from embedq.ports import Store
from embedq.settings import Settings, without_passwords
from embedq.stores.sqlite import SqliteStore
from embedq.telemetry import Telemetry

SQLITE = "sqlite:///"
KNOWN = "write sqlite:///relative.db, sqlite:////absolute.db or postgresql://user@host/database"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A database to open, and how."""

    url: str
    variable: str  # that has named it, for refusals
    settings: Settings
    telemetry: Telemetry
    make: bool = True  # make or upgrade it if need be; without it one that is not there is refused

    @property
    def scheme(self) -> str:
        """The URL's scheme, without the driver that some write behind it."""
        return self.url.partition(":")[0].partition("+")[0].lower()

    @property
    def limits(self) -> Limits:
        """What texts may be."""
        return Limits(text_bytes=self.settings.max_text_bytes)

    def refused(self, why: str) -> SettingsError:
        """Say why it cannot be opened, with the variable and the URL as it may be shown."""
        return SettingsError(f"{self.variable}={without_passwords(self.url)!r}: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opener:
    """What a kind of database can be opened as, and what to look at beside it."""

    store: Callable[[Place], Awaitable[Store]]  # corpus and queue in one
    probes: Callable[[Place], Sequence[Probe]]


async def open_store(place: Place) -> Store:
    """Open the database of a place."""
    return await opener(place).store(place)


def probes(place: Place) -> Sequence[Probe]:
    """Say what the doctor looks at beside the database."""
    return opener(place).probes(place)


def opener(place: Place) -> Opener:
    """Find who opens URLs of this scheme."""
    if place.scheme in LATER:
        raise SettingsError(
            f"{place.variable}: this version keeps records and queue in one SQLite or PostgreSQL database"
        )
    if place.scheme not in OPENERS:
        raise place.refused(KNOWN)
    return OPENERS[place.scheme]


def missing(library: str | None, extra: str) -> str:
    """Say how to install an extra: with this very Python, since another would not help."""
    return f"{library} is missing: run {sys.executable} -m pip install 'embedq[{extra}]'"


def sqlite_path(place: Place) -> Path:
    """Read the path of a SQLite URL: three slashes are relative to the working directory, four absolute."""
    path = place.url.removeprefix(SQLITE)
    if not place.url.startswith(SQLITE) or path in {"", ":memory:"} or "?" in path or "#" in path:
        raise place.refused(KNOWN)
    return Path(path)


async def _open_sqlite(place: Place) -> Store:
    path = sqlite_path(place)
    if not place.make and not path.exists():
        raise NotFound(f"no database at {place.url}: `embedq up` or `embedq init` makes one, --url names another")
    return await SqliteStore.open(path, telemetry=place.telemetry, limits=place.limits)


def _beside_sqlite(place: Place) -> Sequence[Probe]:
    return [disk_probe(sqlite_path(place).parent)]  # the disk is this host's


async def _open_postgres(place: Place) -> Store:
    try:
        from embedq.stores.postgres import PostgresStore  # noqa: PLC0415 its driver is an extra
    except ModuleNotFoundError as error:
        raise SettingsError(missing(error.name, "postgres")) from error
    how = {"pooler": place.settings.pg_pooler, "make": place.make}
    return await PostgresStore.open(place.url, telemetry=place.telemetry, limits=place.limits, **how)


def _beside_postgres(place: Place) -> Sequence[Probe]:  # noqa: ARG001 its disk is another host's
    return []


_SQLITE = Opener(store=_open_sqlite, probes=_beside_sqlite)
_POSTGRES = Opener(store=_open_postgres, probes=_beside_postgres)
OPENERS: Mapping[str, Opener] = {"sqlite": _SQLITE, "postgresql": _POSTGRES, "postgres": _POSTGRES}
LATER = frozenset({"neo4j", "bolt"})
