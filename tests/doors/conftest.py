"""The API over a real SQLite file, where tests play the worker themselves, and the command line in real processes."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from httpx import ASGITransport, AsyncClient, Response
from tests.doors.raw import KEYS, Door, Opened
from tests.forked import loaded

from embedq.api import Bounds, Server, create_app
from embedq.app import App, load, start
from embedq.client import Client
from embedq.embedding import Purpose
from embedq.model import Ask, Done, ErrorCategory, Failed, Fault, Lease, Reason, Released, WorkerId
from embedq.operator import Operator
from embedq.ports import Store
from embedq.telemetry import Event, Facts

PREFIX = "urn:embedq:problem:"
VARIABLES = ("EMBEDQ_", "EMBED_", "EMBEDDING_", "CHL_", "OPENAI_")
DIMENSIONS = 16
FAULT = Fault(ErrorCategory.PERMANENT, "400", "no")


@dataclass(kw_only=True)
class World:
    """The API, what stands behind it, and what was told."""

    app: App
    api: FastAPI
    http: AsyncClient
    events: list[tuple[Event, str, Facts]] = field(default_factory=list)

    @property
    def client(self) -> Client:
        """What the routes of applications call."""
        return self.app.client

    @property
    def operator(self) -> Operator:
        """What the routes of operators call."""
        return self.app.operator

    @property
    def store(self) -> Store:
        """The database behind both."""
        return self.app.store

    async def lease(self, *, limit: int = 1000) -> Sequence[Lease]:
        """Lease what waits, as a worker would."""
        spaces = [space.id for space in await self.store.spaces()]
        ask = Ask(worker=WorkerId("test"), spaces=spaces, limit=limit, span=timedelta(minutes=5))
        return list((await self.store.lease(ask)).leases)

    async def embed_all(self, collection: str | None = None, *, limit: int = 1000) -> None:
        """Bring vectors for what waits, in one collection if it is given."""
        leases = await self.lease(limit=limit)
        [space] = await self.store.spaces()
        embedder = await self.app.embedders.get(space.embedder)
        vectors = (await embedder.embed([lease.text or "" for lease in leases], Purpose.DOCUMENT)).vectors
        await self.store.settle(
            [
                Done(lease, vector) if collection in {None, lease.collection} else Released(lease)
                for lease, vector in zip(leases, vectors, strict=True)
            ]
        )

    async def fail_all(self) -> None:
        """Make dead letters of what waits."""
        await self.store.settle([Failed(lease, FAULT, Reason.PERMANENT_ERROR) for lease in await self.lease()])


Make = Callable[..., Awaitable[World]]


@pytest.fixture
async def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Make]:
    """Make an API over a database of its own, with these settings."""
    monkeypatch.chdir(tmp_path)  # where no settings file lies
    async with AsyncExitStack() as stack:

        async def one(**settings: Any) -> World:  # noqa: ANN401 each is of its own field's type
            loaded = load(url="sqlite:///test.db", embedder=f"fake@{DIMENSIONS}", **settings)
            app = await stack.enter_async_context(start(loaded, serving=True, quiet=True))
            assert app.metrics is not None
            api = create_app(app.client, app.operator, settings=loaded, telemetry=app.telemetry, metrics=app.metrics)
            transport = ASGITransport(api, raise_app_exceptions=False)
            http = await stack.enter_async_context(AsyncClient(transport=transport, base_url="http://localhost:8400"))
            world = World(app=app, api=api, http=http)
            app.telemetry.add(lambda *event: world.events.append(event))
            return world

        yield one


@pytest.fixture
async def world(make: Make) -> World:
    return await make()


@pytest.fixture
async def http(world: World) -> AsyncClient:
    return world.http


def problem(answer: Response, status: int, slug: str | None = None) -> dict[str, Any]:
    """Check that an answer is a problem document of this kind."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert document.keys() - {"problems"} == {"type", "title", "status", "detail"}
    assert document["status"] == status
    assert document["detail"]
    assert slug is None or document["type"] == PREFIX + slug
    return document


@pytest.fixture
def opened(make: Make, monkeypatch: pytest.MonkeyPatch) -> Opened:
    """Serve an API with keys and these bounds."""
    monkeypatch.setattr("embedq.api.server.TICK_SECONDS", 0.01)

    @asynccontextmanager
    async def run(**bounds: Any) -> AsyncIterator[Door]:  # noqa: ANN401 each is of its own field's type
        world, up = await make(**KEYS), asyncio.Event()
        server = Server(
            world.api, host="127.0.0.1", port=0, keyed=True, bounds=Bounds(**bounds), telemetry=world.app.telemetry
        )
        running = asyncio.create_task(server.run(started=lambda _: up.set()))
        await up.wait()
        try:
            yield Door(world, server)
        finally:
            server.stop()
            await running

    return run


class Shell:
    """Runs `embedq` in a folder of its own, with a clean environment and the fake embedder."""

    def __init__(self, folder: Path) -> None:
        """Work in this folder."""
        self.folder = folder
        self.command = (sys.executable, "-m", "embedq")
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLES)}
        self.environment |= {"EMBEDQ_EMBEDDER": "fake", "COLUMNS": "120", "NO_COLOR": "1"}
        self._plain = dict(self.environment)

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [*self.command, *words],
            cwd=self.folder,
            env=self.environment | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, *words: str, code: int = 0, given: str | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, which must be this exit code."""
        environment = self.environment | variables
        changed = {name for name, _ in environment.items() ^ self._plain.items()}
        if all(name.startswith(VARIABLES) for name in changed):
            done = loaded().run(words, folder=self.folder, environment=environment, given=given)
        else:  # Python itself may read the others when it starts
            done = subprocess.run(
                [*self.command, *words],
                cwd=self.folder,
                env=environment,
                input=given or "",
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done

    def facts(self, *words: str, code: int = 0, **variables: str) -> Any:  # noqa: ANN401 whatever JSON holds
        """Run a command and read its facts."""
        return json.loads(self.run(*words, "--json", code=code, **variables).stdout)

    def write(self, name: str, *records: dict[str, Any]) -> str:
        """Write a file of JSON lines."""
        (self.folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))
        return name


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)
