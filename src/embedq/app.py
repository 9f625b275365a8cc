"""The composition root: the only file that meets all adapters."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from embedq import __version__
from embedq.client import Client, ClientOptions
from embedq.embedders.registry import EmbedderRegistry
from embedq.errors import NotFound, SettingsError
from embedq.journal import Journal
from embedq.model import EmbedderName
from embedq.operator import Operator, OperatorOptions
from embedq.operator.probes import Probe, disk_probe, embedder_probe
from embedq.policy.naming import parse_embedder
from embedq.policy.texts import Limits
from embedq.ports import Store
from embedq.settings import Settings, load, without_passwords
from embedq.stores.sqlite import SqliteStore
from embedq.telemetry import Event, Telemetry
from embedq.upkeep import HostLiveness, Upkeep, UpkeepOptions
from embedq.worker import Pool, WorkerOptions

if TYPE_CHECKING:
    from embedq.metrics import Metrics

SQLITE = "sqlite:///"
POSTGRES = ("postgresql", "postgres")
LATER = ("neo4j", "bolt")
LIBRARY_LEVEL = "warning"  # an application's own output stays its own, but trouble is told


class EmbedQ(Client):
    """What applications hold: the client's methods, and the operator's beside them."""

    operator: Operator


@runtime_checkable
class Warming(Protocol):
    """An embedder that has something to load before its first answer."""

    async def warm(self) -> None:
        """Load it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """Everything of one process, put together."""

    settings: Settings
    telemetry: Telemetry
    store: Store
    embedders: EmbedderRegistry
    client: EmbedQ
    operator: Operator
    metrics: "Metrics | None" = None  # only where the API is served
    _liveness: HostLiveness = field(default_factory=HostLiveness)

    @asynccontextmanager
    async def working(self, workers: int) -> AsyncIterator[None]:
        """Let workers and upkeep run for a while; leaving is clean. With 0 workers neither runs."""
        async with AsyncExitStack() as stack:
            if workers or self.metrics is not None:
                await self._check_embedder(stack)
            backlog = await self._backlog()  # before anything works on it
            duties = await self._begin(stack, workers) if workers else []
            self.telemetry.emit(Event.STARTED, **self._boot_facts(workers, duties), **backlog)
            stack.callback(self.telemetry.emit, Event.STOPPING)
            yield

    async def _begin(self, stack: AsyncExitStack, workers: int) -> list[str]:
        upkeep, pool = self._upkeep(), self._pool(workers)
        stack.push_async_callback(upkeep.stop)
        upkeep.start()
        stack.push_async_callback(pool.stop)
        await pool.start()
        return upkeep.duties

    async def warm(self, name: EmbedderName) -> None:
        """Load what an embedder needs before its first answer."""
        embedder = await self.embedders.get(name)
        if isinstance(embedder, Warming):
            await embedder.warm()

    async def _check_embedder(self, stack: AsyncExitStack) -> None:
        """Refuse to start with an embedder that lacks its key or weights; else load it behind the start."""
        name = self.embedders.canonical(parse_embedder(self.settings.embedder))
        await self.embedders.get(name)
        warming = asyncio.create_task(self.warm(name), name="embedq-warm")
        warming.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # the first call tells why
        stack.callback(warming.cancel)

    def _pool(self, workers: int) -> Pool:
        settings = self.settings
        options = WorkerOptions(
            workers=workers,
            batch_size=settings.batch_size,
            lease=settings.lease,
            heartbeat=settings.heartbeat,
            attempt_deadline=timedelta(seconds=settings.attempt_seconds),
            poll_interval=timedelta(seconds=settings.poll_seconds),
            budget=settings.budget,
            embedder=settings.embedder,
        )
        return Pool(
            self.store, self.embedders.build, process=self._liveness.me(), options=options, telemetry=self.telemetry
        )

    def _upkeep(self) -> Upkeep:
        options = UpkeepOptions(
            rescue_interval=self.settings.recovery or timedelta(0),
            heartbeat=self.settings.heartbeat,
            retention=self.settings.retention,
            retry_failed_on_startup=self.settings.retry_failed_on_startup,
        )
        return Upkeep(self.store, self._liveness, options=options, telemetry=self.telemetry)

    async def _backlog(self) -> dict[str, Any]:
        """Count what waits from before: it goes on by itself, and people want to see that."""
        counts = (await self.store.counts()).values()
        return {"pending": sum(c.pending for c in counts), "processing": sum(c.processing for c in counts)}

    def _boot_facts(self, workers: int, duties: list[str]) -> dict[str, Any]:
        settings = self.settings
        return {
            "version": __version__,
            "url": settings.shown_url,
            "workers": workers,
            "embedder": settings.embedder,
            "upkeep": duties,
            "assumed": settings.assumed(),
        }


@asynccontextmanager
async def start(
    settings: Settings,
    *,
    serving: bool = False,
    quiet: bool = False,
    level: str | None = None,
    make: bool = True,
) -> AsyncIterator[App]:
    """Open the database and put everything together; workers run within `App.working`.

    Args:
        settings: What to open and how.
        serving: The API will be served, so figures are kept for it.
        quiet: Write no log, for commands that say themselves what they did.
        level: The least level that is logged, if not the settings'.
        make: Make or upgrade the database if need be; without it one that is not there is refused.
    """
    telemetry = Telemetry()
    if not quiet:
        telemetry.add(
            Journal(level=level or settings.log_level, log_text=settings.log_text, secrets=settings.secrets())
        )
    async with AsyncExitStack() as stack:
        store = await _open_store(settings, telemetry, make=make)
        stack.push_async_callback(store.close)
        registry = EmbedderRegistry(environment(settings))
        stack.push_async_callback(registry.close)
        client = _client(store, registry, settings, telemetry)
        stack.push_async_callback(client.close)
        yield App(
            settings=settings,
            telemetry=telemetry,
            store=store,
            embedders=registry,
            client=client,
            operator=client.operator,
            metrics=_metrics(telemetry) if serving else None,
        )
    telemetry.emit(Event.STOPPED)


def open(  # noqa: A001 the name that users write
    url: str | None = None,
    *,
    workers: int = 0,
    embedder: str | None = None,
    **settings: Any,  # noqa: ANN401 each is of its own field's type
) -> AbstractAsyncContextManager[EmbedQ]:
    """Open a database for an application: `async with embedq.open("sqlite:///notes.db", workers=1) as eq`.

    Args:
        url: The database; without it EMBEDQ_URL, or `sqlite:///embedq.db`.
        workers: Workers in this process; with 0 it only writes and searches.
        embedder: What embeds collections that name none; without it EMBEDQ_EMBEDDER, or `local`.
        **settings: Any other setting by its name in `embedq.toml`.
    """
    return _opened(load(url=url, embedder=embedder, **settings), workers)


@asynccontextmanager
async def _opened(settings: Settings, workers: int) -> AsyncIterator[EmbedQ]:
    level = settings.log_level if "log_level" in settings.model_fields_set else LIBRARY_LEVEL
    async with start(settings, level=level) as app, app.working(workers):
        yield app.client


async def _open_store(settings: Settings, telemetry: Telemetry, *, make: bool) -> Store:
    if _scheme(settings) in LATER or settings.queue_url is not None:
        name = "EMBEDQ_QUEUE_URL" if settings.queue_url is not None else "EMBEDQ_URL"
        raise SettingsError(f"{name}: this version keeps records and queue in one SQLite or PostgreSQL database")
    if _scheme(settings) in POSTGRES:
        return await _open_postgres(settings, telemetry, make=make)
    path = sqlite_path(settings.url)
    if not make and not path.exists():
        raise NotFound(f"no database at {settings.url}: `embedq up` or `embedq init` makes one, --url names another")
    return await SqliteStore.open(path, telemetry=telemetry, limits=Limits(text_bytes=settings.max_text_bytes))


async def _open_postgres(settings: Settings, telemetry: Telemetry, *, make: bool) -> Store:
    try:
        from embedq.stores.postgres import PostgresStore  # noqa: PLC0415 its driver is an extra
    except ModuleNotFoundError as error:
        raise SettingsError(missing(error.name, "postgres")) from error
    how = {"pooler": settings.pg_pooler, "make": make}
    limits = Limits(text_bytes=settings.max_text_bytes)
    return await PostgresStore.open(settings.url, telemetry=telemetry, limits=limits, **how)


def missing(library: str | None, extra: str) -> str:
    """Say how to install an extra: with this very Python, since another would not help."""
    return f"{library} is missing: run {sys.executable} -m pip install 'embedq[{extra}]'"


def _scheme(settings: Settings) -> str:
    return settings.url.partition(":")[0].partition("+")[0].lower()


def sqlite_path(url: str) -> Path:
    """Read the path of a SQLite URL: three slashes are relative to the working directory, four absolute."""
    path = url.removeprefix(SQLITE)
    if not url.startswith(SQLITE) or path in {"", ":memory:"} or "?" in path or "#" in path:
        raise SettingsError(
            f"EMBEDQ_URL={without_passwords(url)!r}: write sqlite:///relative.db, sqlite:////absolute.db "
            "or postgresql://user@host/database"
        )
    return Path(path)


def environment(settings: Settings) -> dict[str, str]:
    """Lay out the variables that embedders read; what stands in the settings file counts like a variable."""
    secrets = {"OPENAI_API_KEY": settings.openai_api_key, "GEMINI_API_KEY": settings.gemini_api_key}
    plain = {
        "OPENAI_BASE_URL": settings.openai_base_url,
        "GEMINI_BASE_URL": settings.gemini_base_url,
        "OLLAMA_HOST": settings.ollama_host,
        "EMBEDQ_MODEL_DIR": settings.model_dir,
    }
    found = {name: secret.get_secret_value() for name, secret in secrets.items() if secret is not None}
    return {**os.environ, **found, **{name: value for name, value in plain.items() if value is not None}}


def _client(store: Store, registry: EmbedderRegistry, settings: Settings, telemetry: Telemetry) -> EmbedQ:
    name, is_dead = registry.canonical(parse_embedder(settings.embedder)), HostLiveness().is_dead
    options = ClientOptions(
        embedder=name,
        retry=settings.retry,
        strict=settings.strict,
        limits=Limits(text_bytes=settings.max_text_bytes),
        budget=settings.budget,
        heartbeat=settings.heartbeat,
        is_dead=is_dead,
        max_answer_bytes=settings.max_answer_bytes,
    )
    client = EmbedQ(store, registry, options=options, telemetry=telemetry)
    client.operator = Operator(
        store,
        options=OperatorOptions(heartbeat=settings.heartbeat, recovery=settings.recovery is not None, is_dead=is_dead),
        telemetry=telemetry,
        probes=[*_disk(settings), embedder_probe(store, registry.get, name)],
    )
    return client


def _disk(settings: Settings) -> list[Probe]:
    """Look at the disk where it is this host's."""
    return [] if _scheme(settings) in POSTGRES else [disk_probe(sqlite_path(settings.url).parent)]


def _metrics(telemetry: Telemetry) -> "Metrics":
    from embedq.metrics import Metrics  # noqa: PLC0415 its library is installed with the server only

    metrics = Metrics()
    telemetry.add(metrics)
    return metrics
