"""Commands that run embedq: the API, workers, or both in one process."""

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

import typer
from rich.text import Text

from embedq import __version__
from embedq.app import App, load, require, start
from embedq.app.startup_retry import AT_START
from embedq.cli import model
from embedq.cli.options import Embedder, Json, Url, ask
from embedq.cli.output import complain, console, print_json, say
from embedq.errors import Invalid, SettingsError
from embedq.policy.printable import literal
from embedq.settings import Settings

if TYPE_CHECKING:
    from embedq.api import Server

Host = Annotated[str | None, typer.Option("--host", help="The address to bind. Default: EMBEDQ_HOST, or 127.0.0.1.")]
Port = Annotated[int | None, typer.Option("--port", "-p", min=0, max=65_535, help="Default: EMBEDQ_PORT, or 8400.")]
Workers = Annotated[int | None, typer.Option("--workers", min=0, max=256, help="Default: EMBEDQ_WORKERS, or 2.")]
Roles = Annotated[
    bool,
    typer.Option("--roles", help="Make the roles embedq_reader, embedq_writer and embedq_worker too (PostgreSQL)."),
]
KEY_HEADER = '-H "Authorization: Bearer $EMBEDQ_API_KEY"'  # the variable, never the key
SWITCH_SECONDS = 0.001  # a batch takes less than Python's default of 5 ms, and needs two threads


@runtime_checkable
class RoleMaking(Protocol):
    """A store whose database has roles."""

    async def make_roles(self) -> Mapping[str, Sequence[str]]:
        """Create roles for readers, writers and workers; return which existed, were created, and what is left to do."""
        ...


def up(
    *, url: Url = None, workers: Workers = None, embedder: Embedder = None, host: Host = None, port: Port = None
) -> None:
    """Run the API and workers in one process, until Ctrl-C."""
    settings = load(url=url, workers=workers, embedder=embedder, host=host, port=port)
    asyncio.run(_run(settings, workers=settings.workers, serving=True))


def serve(*, url: Url = None, embedder: Embedder = None, host: Host = None, port: Port = None) -> None:
    """Run the API alone; workers run elsewhere."""
    asyncio.run(_run(load(url=url, embedder=embedder, host=host, port=port), workers=0, serving=True))


def work(*, url: Url = None, workers: Workers = None, embedder: Embedder = None) -> None:
    """Run workers alone."""
    settings = load(url=url, workers=workers, embedder=embedder)
    if not settings.workers:
        raise typer.BadParameter("0 workers would do nothing", param_hint="--workers")
    asyncio.run(_run(settings, workers=settings.workers, serving=False))


def init(*, roles: Roles = False, url: Url = None, as_json: Json = False) -> None:
    """Install or upgrade the database's schema; safe to repeat."""
    settings = load(url=url)
    if roles and all(url.startswith("sqlite:") for url in (settings.url, settings.queue_url or "sqlite:")):
        raise Invalid("a SQLite file knows no roles: whoever may open it may do everything")
    made = ask(url, lambda app: _prepare(app, roles=roles), make=True)
    unfinished = bool(made.get("undone"))
    queue = {"queue_url": settings.shown_queue_url} if settings.shown_queue_url else {}
    facts = {"status": "unfinished" if unfinished else "ready", "url": settings.shown_url, **queue, **made}
    print_json(facts) if as_json else _say_ready(settings, made)
    if unfinished:
        raise typer.Exit(1)


async def _prepare(app: App, *, roles: bool) -> Mapping[str, Sequence[str]]:
    await app.store.check()
    return await app.store.make_roles() if roles and isinstance(app.store, RoleMaking) else {}


def _say_ready(settings: Settings, made: Mapping[str, Sequence[str]]) -> None:
    beside = f", and so is its queue {settings.shown_queue_url}" if settings.shown_queue_url else ""
    say(f"{settings.shown_url} is ready{beside}")
    if ready := (*made.get("there", ()), *made.get("made", ())):
        say(f"{', '.join(ready)} have their rights here: GRANT one of them to each role that logs in")
    if undone := made.get("undone"):
        said = "; ".join(undone)
        complain(f"this user may not do all of it: an administrator runs {said}; then run `embedq init --roles` again")


async def _run(settings: Settings, *, workers: int, serving: bool) -> None:
    sys.setswitchinterval(SWITCH_SECONDS)
    leaving = _Leaving()
    require(settings, serving=serving)
    try:
        if sys.stderr.isatty():
            await model.bring(settings)  # here a bar shows it; elsewhere it is logged
        async with start(settings, serving=serving, retry_window=AT_START) as app:
            await (_serve if serving else _work)(app, leaving, workers)
    except asyncio.CancelledError:
        if not leaving.asked.is_set():
            raise


async def _work(app: App, leaving: "_Leaving", workers: int) -> None:
    async with app.working(workers):
        leaving.is_up()
        _banner(app.settings, None, workers)
        await leaving.asked.wait()


async def _serve(app: App, leaving: "_Leaving", workers: int) -> None:
    """Bind first, so that a taken port is known before workers start."""
    server = _server(app)
    async with app.working(workers):
        leaving.is_up()
        stopping = asyncio.create_task(_when(leaving.asked, server.stop))
        try:
            await server.run(started=lambda address: _banner(app.settings, address, workers))
        finally:
            stopping.cancel()


def _server(app: App) -> "Server":
    from embedq.api import Bounds, Server, create_app  # noqa: PLC0415 its libraries are an extra

    if app.metrics is None:
        raise SettingsError("the API is served only by an application that was started for it")
    settings = app.settings
    api = create_app(app.client, app.operator, settings=settings, telemetry=app.telemetry, metrics=app.metrics)
    keyed = settings.api_key is not None or settings.read_key is not None
    bounds = Bounds(connections=settings.max_connections)
    return Server(api, host=settings.host, port=settings.port, keyed=keyed, bounds=bounds, telemetry=app.telemetry)


async def _when(event: asyncio.Event, act: Callable[[], None]) -> None:
    await event.wait()
    act()


class _Leaving:
    """Set by SIGINT or SIGTERM: stops cleanly; what is still starting is cancelled."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._starting = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._ask)

    def is_up(self) -> None:
        self._starting = None

    def _ask(self) -> None:
        self.asked.set()
        if self._starting is not None:
            self._starting.cancel()


def _banner(settings: Settings, address: str | None, workers: int) -> None:
    screen = console()
    title = Text.assemble(("embedq", "bold"), f" {__version__}  ", (literal(settings.shown_place), "dim"))
    screen.print("", title, "", sep="\n", soft_wrap=True)
    running = f"{workers} with {settings.embedder}" if workers else "none here: run `embedq work` beside it"
    facts = [("workers", running)]
    if address:
        facts = [("API", address), ("docs", f"{address}/docs"), *facts]
    for name, value in facts:
        screen.print(Text.assemble((f"  {name:<8} ", "dim"), literal(value)), soft_wrap=True)
    for line in _first_steps(settings, address):
        screen.print(line, soft_wrap=True)
    screen.print(Text("\nCtrl-C leaves cleanly. The log follows.\n", "dim"))


def _first_steps(settings: Settings, address: str | None) -> list[str]:
    if address is None or (settings.api_key is None and settings.read_key is not None):  # nobody may write here
        return []
    body = '{"id": "n1", "text": "Call Ada about the loom"}'
    curl = f"curl {address}" if settings.api_key is None else f"curl {KEY_HEADER} {address}"
    return [
        "",
        "  Write a record, then find it by meaning:",
        f"    {curl}/collections/notes/records --json '{body}'",
        f'    {curl}/collections/notes/search --json \'{{"query": "weaving"}}\'',
    ]
