"""Vectors of queries, and of other texts that a caller waits for: bounded by a timeout, and by the fleet's budget."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from datetime import timedelta
from time import monotonic
from typing import NamedTuple, Protocol

import numpy as np

from embedq.client.options import ClientOptions
from embedq.embedding import Purpose, Spending
from embedq.errors import EmbedderError, NotNow, SettingsError, StoreError, StoreForbidden
from embedq.model import EmbedderName, Space, SpaceId, Vector
from embedq.policy.budgets import budget_of
from embedq.policy.tokens import most_tokens, packed
from embedq.policy.vectors import checked
from embedq.ports import Budgeting, Embedder
from embedq.telemetry import Event, Telemetry

MOST_RUNNING = 256  # queries per space that are embedded at a time, those that are no longer waited for included


class Key(NamedTuple):
    """What is embedded, and for what."""

    space: SpaceId
    texts: tuple[str, ...]
    purpose: Purpose

    @property
    def is_query(self) -> bool:
        """Say whether it is one query, which may well be asked again; many texts would fill the cache."""
        return len(self.texts) == 1 and self.purpose is Purpose.QUERY


class Embedders(Protocol):
    """Where a client gets embedders for queries."""

    def canonical(self, name: EmbedderName) -> EmbedderName:
        """Return a name's canonical form. SettingsError: there is no such embedder."""
        ...

    async def get(self, name: EmbedderName) -> Embedder:
        """Build an embedder, or return the existing one. SettingsError: it lacks something."""
        ...


class NoVector(Exception):
    """There is no query vector; the message says why."""


class QueryVectors:
    """Embeds queries and caches recent ones."""

    def __init__(self, store: Budgeting, embedders: Embedders, *, options: ClientOptions, telemetry: Telemetry) -> None:
        """Embed with these embedders, within the fleet's budget."""
        self._store = store
        self._embedders = embedders
        self._options = options
        self._telemetry = telemetry
        self._remembered: OrderedDict[Key, Vector] = OrderedDict()
        self._running: dict[Key, asyncio.Task[Vector]] = {}
        self._closed = False
        self._held: dict[SpaceId, float] = {}  # until when, where only this process could note it

    async def of(
        self, space: Space, texts: Sequence[str], purpose: Purpose = Purpose.QUERY, *, within: timedelta
    ) -> Vector:
        """Return a row per text, their vectors in this space, or raise NoVector that says why there are none.

        After a timeout the embedding continues in the background: a loading model serves the next query.
        """
        if self._closed:
            raise StoreError("the store is closed: open it again")
        key = Key(space.id, tuple(texts), purpose)
        if key in self._remembered:
            self._remembered.move_to_end(key)
            return self._remembered[key]
        if key not in self._running and sum(other.space == space.id for other in self._running) >= MOST_RUNNING:
            raise NoVector(f"{MOST_RUNNING} other queries wait for their vectors")
        task = self._running.get(key) or self._start(key, space)
        done, _ = await asyncio.wait([task], timeout=within.total_seconds())
        if not done:
            raise NoVector(f"{space.embedder} did not answer within {within.total_seconds():g} s")
        return task.result()

    async def close(self) -> None:
        """Cancel the embeddings in progress, and begin no others."""
        self._closed = True
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, key: Key, space: Space) -> asyncio.Task[Vector]:
        task = asyncio.create_task(self._embed(space, key), name="embedq-query")
        self._running[key] = task
        task.add_done_callback(lambda ended: self._ended(key, ended))
        return task

    def _ended(self, key: Key, task: asyncio.Task[Vector]) -> None:
        self._running.pop(key, None)
        if task.cancelled() or task.exception() or not key.is_query:  # reading it also keeps asyncio from warning
            return
        self._remembered[key] = task.result()
        while len(self._remembered) > self._options.cached_queries:
            self._remembered.popitem(last=False)

    async def _embed(self, space: Space, key: Key) -> Vector:
        try:
            embedder = await self._embedders.get(space.embedder)
            budget = budget_of(self._options.budget, embedder.limits)
            most = most_tokens(embedder.limits, budget)
            calls = packed(key.texts, inputs=embedder.limits.inputs, tokens=most, count=embedder.tokens)
            return np.concatenate([await self._call(embedder, space, texts, key.purpose) for texts in calls])
        except NotNow as error:
            await self._hold(space.id, error.retry_after or timedelta(0))
            raise NoVector(str(error)) from error
        except (EmbedderError, SettingsError) as error:
            raise NoVector(str(error)) from error
        except TimeoutError as error:
            raise NoVector(f"{space.embedder} did not answer within {self._deadline:g} s") from error
        except (NoVector, StoreError):
            raise
        except Exception as error:  # an attempt: any embedder may be plugged in, and its message may quote the query
            raise NoVector(f"{space.embedder} failed with {type(error).__name__}") from error

    @property
    def _deadline(self) -> float:
        return self._options.attempt_deadline.total_seconds()

    async def _call(self, embedder: Embedder, space: Space, texts: Sequence[str], purpose: Purpose) -> Vector:
        """Call the embedder once, within the budget, and return checked vectors of this space."""
        await self._afford(embedder, space, texts)
        started = monotonic()
        async with asyncio.timeout(self._deadline):
            answer = await embedder.embed(texts, purpose)
        self._telemetry.emit(
            Event.EMBEDDED,
            level="debug",
            space=str(space),
            model=str(space.embedder),
            purpose=purpose.value,
            texts=len(texts),
            tokens=answer.tokens,
            seconds=monotonic() - started,
            outcome="ok",
        )
        return checked(answer.vectors, texts=len(texts), dimensions=space.dimensions or embedder.dimensions)

    async def _hold(self, space: SpaceId, span: timedelta) -> None:
        """Stop all requests to the provider; where the database's role may not, those of this process."""
        try:
            await self._store.hold(space, span)
        except StoreForbidden:
            self._held[space] = max(self._held.get(space, 0.0), monotonic() + span.total_seconds())

    async def _afford(self, embedder: Embedder, space: Space, texts: Sequence[str]) -> None:
        """Take from the workers' budget, and obey the same Retry-After."""
        if not embedder.remote:
            return
        wait = timedelta(seconds=self._held.get(space.id, 0.0) - monotonic())
        if wait <= timedelta(0):
            budget = budget_of(self._options.budget, embedder.limits)
            spending = Spending(tokens=sum(map(embedder.tokens, texts)) if budget else 0)
            wait = await self._store.take(space.id, budget, spending)
        if wait > timedelta(0):
            raise NoVector(f"the request budget of {space.embedder} is used up for {wait.total_seconds():.1f} s")
