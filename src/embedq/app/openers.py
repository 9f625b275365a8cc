"""Databases by the scheme of their URL: how each is opened, and which other checks the doctor makes."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TypedDict

from embedq.app.extras import missing
from embedq.errors import NotFound, SettingsError
from embedq.operator.probes import Probe, disk_probe
from embedq.policy.texts import Limits
from embedq.ports import Store
from embedq.ports.halves import Corpus, JobStore
from embedq.settings import Settings, without_passwords
from embedq.stores.pair import PairStore
from embedq.stores.sqlite import SqliteCorpusStore, SqliteJobStore, SqliteStore
from embedq.telemetry import Telemetry

SQLITE = "sqlite:///"
KNOWN = "write sqlite:///relative.db, sqlite:////absolute.db or postgresql://user@host/database"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A database to open, and how."""

    url: str
    variable: str  # the variable that set it, for error messages
    settings: Settings
    telemetry: Telemetry
    make: bool = True  # create or upgrade it if necessary; False: a missing one is refused

    @property
    def scheme(self) -> str:
        """The URL's scheme, without a driver suffix."""
        return self.url.partition(":")[0].partition("+")[0].lower()

    @property
    def queue(self) -> "Place | None":
        """The queue's database, if it is a separate one."""
        url = self.settings.queue_url
        return None if url in (None, self.url) else replace(self, url=url, variable="EMBEDQ_QUEUE_URL")

    @property
    def limits(self) -> Limits:
        """The size limits of records."""
        return Limits(text_bytes=self.settings.max_text_bytes)

    def refused(self, why: str) -> SettingsError:
        """Build the error that says why it cannot be opened, with the variable and the redacted URL."""
        return SettingsError(f"{self.variable}={without_passwords(self.url)!r}: {why}")


class _How(TypedDict):
    """How a PostgreSQL database is opened, as corpus, queue or both."""

    telemetry: Telemetry
    pooler: bool
    make: bool


class _HowRecords(_How):
    """What else matters where its records are."""

    limits: Limits
    index_memory_mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Opener:
    """How a kind of database is opened, and which other checks the doctor makes."""

    store: Callable[[Place], Awaitable[Store]]  # corpus and queue in one
    corpus: Callable[[Place], Awaitable[Corpus]]
    queue: Callable[[Place], Awaitable[JobStore]]
    probes: Callable[[Place], Sequence[Probe]]
    identity: Callable[[Place], Awaitable[object]]  # equal for two spellings of one database; None: it cannot be known


async def open_store(place: Place) -> Store:
    """Open the database of a place, paired with the queue's if that is a separate one."""
    if place.queue is None:
        return await opener(place).store(place)
    corpus = opener(place).corpus  # looked up first: an unsupported URL must not create an empty queue
    await _refuse_one_database(place, place.queue)
    async with AsyncExitStack() as opened:  # closes what is open if the two cannot be joined
        queue = await opener(place.queue).queue(place.queue)
        opened.push_async_callback(queue.close)
        records = await corpus(place)
        opened.push_async_callback(records.close)
        pair = await PairStore.join(records, queue, note=place.make)
        opened.pop_all()
        return pair


async def _refuse_one_database(place: Place, queue: Place) -> None:
    """Refuse one database in two spellings, before anything in it says that it is a queue."""
    if opener(place) is opener(queue):
        known = await opener(queue).identity(queue)
        if known is not None and known == await opener(place).identity(place):
            raise queue.refused("it is the database of EMBEDQ_URL: leave it out, or name another one")


def probes(place: Place) -> Sequence[Probe]:
    """List the doctor's checks besides the database, or both of them."""
    places = [place] if place.queue is None else [place, place.queue]
    return [probe for one in places for probe in opener(one).probes(one)]


def opener(place: Place) -> Opener:
    """Find the opener of this URL scheme."""
    if place.scheme in LATER:
        raise SettingsError(f"{place.variable}: this version keeps records and queue in SQLite or PostgreSQL databases")
    if place.scheme in SERVERS:
        raise place.refused(f"it is the address of a server, and this version opens databases: {KNOWN}")
    if place.scheme not in OPENERS:
        raise place.refused(KNOWN)
    return OPENERS[place.scheme]


def sqlite_path(place: Place) -> Path:
    """Read the path of a SQLite URL: three slashes are relative to the working directory, four absolute."""
    path = place.url.removeprefix(SQLITE)
    if not place.url.startswith(SQLITE) or path in {"", ":memory:"} or "?" in path or "#" in path:
        raise place.refused(KNOWN)
    return Path(path)


def _sqlite_file(place: Place) -> Path:
    path = sqlite_path(place)
    if not place.make and not path.exists():
        raise NotFound(f"no database at {place.url}: `embedq up` or `embedq init` makes one, --url names another")
    return path


async def _open_sqlite(place: Place) -> Store:
    return await SqliteStore.open(_sqlite_file(place), telemetry=place.telemetry, limits=place.limits, make=place.make)


async def _open_sqlite_corpus(place: Place) -> Corpus:
    return await SqliteCorpusStore.open(
        _sqlite_file(place), telemetry=place.telemetry, limits=place.limits, make=place.make
    )


async def _open_sqlite_queue(place: Place) -> JobStore:
    return await SqliteJobStore.open(_sqlite_file(place), telemetry=place.telemetry, make=place.make)


async def _sqlite_identity(place: Place) -> object:
    path = sqlite_path(place).resolve()
    return path.stat()[1:3] if path.exists() else path  # inode and device, as a file may have several names


def _beside_sqlite(place: Place) -> Sequence[Probe]:
    return [disk_probe(sqlite_path(place).parent)]  # the disk is local


def _how(place: Place) -> _How:
    """Collect the options for PostgreSQL, if its driver, an extra, is installed."""
    try:
        import_module("embedq.stores.postgres")
    except ModuleNotFoundError as error:
        raise SettingsError(missing({"postgres": [str(error.name)]})) from error
    return {"telemetry": place.telemetry, "pooler": place.settings.pg_pooler, "make": place.make}


def _how_records(place: Place) -> _HowRecords:
    return {**_how(place), "limits": place.limits, "index_memory_mb": place.settings.pg_index_memory_mb}


async def _open_postgres(place: Place) -> Store:
    how = _how_records(place)
    from embedq.stores.postgres import PostgresStore  # noqa: PLC0415 its driver is an extra

    return await PostgresStore.open(place.url, **how)


async def _open_postgres_corpus(place: Place) -> Corpus:
    how = _how_records(place)
    from embedq.stores.postgres import PostgresCorpusStore  # noqa: PLC0415 its driver is an extra

    return await PostgresCorpusStore.open(place.url, **how)


async def _open_postgres_queue(place: Place) -> JobStore:
    how = _how(place)
    from embedq.stores.postgres import PostgresJobStore  # noqa: PLC0415 its driver is an extra

    return await PostgresJobStore.open(place.url, **how)


async def _postgres_identity(place: Place) -> object:
    pooler = _how(place)["pooler"]
    from embedq.stores.postgres import identity  # noqa: PLC0415 its driver is an extra

    return await identity(place.url, pooler=pooler)


def _beside_postgres(place: Place) -> Sequence[Probe]:  # noqa: ARG001 its disk is remote
    return []


_SQLITE = Opener(
    store=_open_sqlite,
    corpus=_open_sqlite_corpus,
    queue=_open_sqlite_queue,
    probes=_beside_sqlite,
    identity=_sqlite_identity,
)
_POSTGRES = Opener(
    store=_open_postgres,
    corpus=_open_postgres_corpus,
    queue=_open_postgres_queue,
    probes=_beside_postgres,
    identity=_postgres_identity,
)
OPENERS: Mapping[str, Opener] = {"sqlite": _SQLITE, "postgresql": _POSTGRES, "postgres": _POSTGRES}
LATER = frozenset({"neo4j", "bolt"})
SERVERS = frozenset({"http", "https"})
