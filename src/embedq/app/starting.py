"""Assembles the components of a process, and closes them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from embedq.app.application import App
from embedq.app.embedq import Close, EmbedQ
from embedq.app.openers import Place, open_store, probes
from embedq.app.opening import Opening
from embedq.app.settings import environment, load
from embedq.app.startup_retry import StartupRetry
from embedq.client import Client, ClientOptions
from embedq.embedders.registry import EmbedderRegistry
from embedq.journal import Journal
from embedq.operator import Operator, OperatorOptions
from embedq.operator.probes import Probe, embedder_probe
from embedq.policy.naming import parse_embedder
from embedq.policy.texts import Limits
from embedq.ports import Store
from embedq.settings import Settings
from embedq.telemetry import Event, Telemetry
from embedq.upkeep import HostLiveness

if TYPE_CHECKING:
    from embedq.metrics import Metrics

LIBRARY_LEVEL = "warning"  # no routine lines in an application's own output


def open(  # noqa: A001 public API
    url: str | None = None,
    *,
    workers: int = 0,
    embedder: str | None = None,
    **settings: Any,  # noqa: ANN401 each is of its own field's type
) -> Opening:
    """Open a database for an application: `async with embedq.open("sqlite:///notes.db", workers=1) as eq`.

    Without a block: `eq = await embedq.open(...)`, and `await eq.close()` at the end.

    Args:
        url: The database; without it EMBEDQ_URL, or `sqlite:///embedq.db`.
        workers: Workers in this process; with 0 it only writes and searches.
        embedder: What embeds collections that name none; without it EMBEDQ_EMBEDDER, or `local`.
        **settings: Any other setting by its name in `embedq.toml`.
    """
    return Opening(partial(_opened, load(url=url, embedder=embedder, **settings), workers))


@asynccontextmanager
async def start(
    settings: Settings,
    *,
    serving: bool = False,
    quiet: bool = False,
    level: str | None = None,
    make: bool = True,
    retry_window: timedelta = timedelta(0),
    close: Close | None = None,
) -> AsyncIterator[App]:
    """Open the database and assemble all components; workers run within `App.working`.

    Args:
        settings: What to open and how.
        serving: The API will be served, so metrics are collected.
        quiet: Write no log, for commands that print their own result.
        level: The lowest level that is logged, if not the settings'.
        make: Create or upgrade the database if necessary; False: a missing one is refused.
        retry_window: How long to retry while the database is unreachable.
        close: What the client's `close` does, if more than to end its queries.
    """
    telemetry = Telemetry() if quiet else Telemetry(_journal(settings, level))
    place, startup = _place(settings, telemetry, make=make), StartupRetry(telemetry, retry_window)
    async with AsyncExitStack() as stack:
        store = await startup.run(lambda: open_store(place))
        stack.push_async_callback(store.close)
        registry = EmbedderRegistry(environment(settings))
        stack.push_async_callback(registry.close)
        client = _client(store, registry, place, close)
        stack.push_async_callback(Client.close, client)  # its queries: the rest of what `close` closes is here
        yield App(
            settings=settings,
            telemetry=telemetry,
            store=store,
            embedders=registry,
            client=client,
            startup=startup,
            metrics=_metrics(telemetry) if serving else None,
        )
    telemetry.emit(Event.STOPPED)


@asynccontextmanager
async def _opened(settings: Settings, workers: int, close: Close) -> AsyncIterator[EmbedQ]:
    level = settings.log_level if "log_level" in settings.model_fields_set else LIBRARY_LEVEL
    async with start(settings, level=level, close=close) as app, app.working(workers):
        yield app.client


def _journal(settings: Settings, level: str | None) -> Journal:
    return Journal(
        level=level or settings.log_level,
        form=settings.log_format,
        log_text=settings.log_text,
        secrets=settings.secrets(),
    )


def _place(settings: Settings, telemetry: Telemetry, *, make: bool) -> Place:
    return Place(url=settings.url, variable="EMBEDQ_URL", settings=settings, telemetry=telemetry, make=make)


def _client(store: Store, registry: EmbedderRegistry, place: Place, close: Close | None) -> EmbedQ:
    settings, operator = place.settings, _operator(store, registry, place)
    options = ClientOptions(
        embedder=registry.canonical(parse_embedder(settings.embedder)),
        retry=settings.retry,
        strict=settings.strict,
        limits=Limits(text_bytes=settings.max_text_bytes),
        budget=settings.budget,
        heartbeat=settings.heartbeat,
        is_dead=HostLiveness().is_dead,
        attempt_deadline=timedelta(seconds=settings.attempt_seconds),
        max_answer_bytes=settings.max_answer_bytes,
    )
    return EmbedQ(store, registry, options=options, telemetry=place.telemetry, operator=operator, close=close)


def _operator(store: Store, registry: EmbedderRegistry, place: Place) -> Operator:
    settings = place.settings
    options = OperatorOptions(
        heartbeat=settings.heartbeat, recovery=settings.recovery is not None, is_dead=HostLiveness().is_dead
    )
    default = registry.canonical(parse_embedder(settings.embedder))
    looks: Sequence[Probe] = [*probes(place), embedder_probe(store, registry.get, default)]
    return Operator(store, options=options, telemetry=place.telemetry, probes=looks)


def _metrics(telemetry: Telemetry) -> "Metrics":
    from embedq.metrics import Metrics  # noqa: PLC0415 its library is installed with the server only

    metrics = Metrics()
    telemetry.add(metrics)
    return metrics
