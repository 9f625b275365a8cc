"""The state of one embedder in use."""

import asyncio
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from enum import StrEnum

from embedq.embedding import Embeddings, Purpose, Spending, ToldLimits
from embedq.errors import NotFound, NotNow, StoreError, Transient
from embedq.model import Budget, Space, Vector
from embedq.policy.attempts import THROTTLING, delay, fault_of
from embedq.policy.budgets import budget_of
from embedq.policy.echoes import cleared
from embedq.policy.vectors import check_dimensions, checked
from embedq.ports import Embedder
from embedq.telemetry import Event, Trouble
from embedq.worker.context import WorkerContext
from embedq.worker.in_flight import InFlight
from embedq.worker.store_retry import with_retry

FRESH_SECONDS = 0.1  # cache lifetime of the store's answers: another process may have changed them


class Availability(StrEnum):
    """Whether an embedder can be called."""

    READY = "ready"
    RESTING = "resting"  # backs off until a probe succeeds
    HALTED = "halted"  # needs an operator
    GONE = "gone"  # no collection uses its space any more


class EmbedderState:
    """The state of one space's embedder in this process."""

    def __init__(self, context: WorkerContext, space: Space) -> None:
        """Start without the embedder, which is built later."""
        self._context = context
        self.space = space
        self.embedder: Embedder | None = None
        self.availability = Availability.RESTING
        self.streak = 0  # failed calls in a row
        self.in_flight = InFlight()
        self.probing = asyncio.Lock()
        self._throttles = 0  # refusals in a row
        self._waited = timedelta(0)  # for the budget, last time
        self._reported_limits: ToldLimits | None = None  # by the provider, with its last valid answer
        self._free_at = self._held_at = -math.inf  # monotonic: when no hold was found; when we set one

    @property
    def name(self) -> str:
        """The embedder's name as people write it."""
        return str(self.space.embedder)

    @property
    def limiter(self) -> dict[str, object]:
        """Describe the rate limiter for a log line."""
        return {
            "budget": _shown(self.budget) if self.budget else None,
            "waitedSeconds": self._waited.total_seconds(),
            "refusals": self._throttles,
            "told": asdict(self._reported_limits) if self._reported_limits else None,
        }

    @property
    def budget(self) -> Budget | None:
        """The fleet's rate limit for this embedder."""
        if self.embedder is None or not self.embedder.remote:
            return None
        return budget_of(self._context.options.budget, self.embedder.limits)

    async def allowance(self, texts: Sequence[str]) -> timedelta:
        """Take a call with these texts from the fleet's budget. Zero: go. Else how long to wait."""
        now = self._context.timing.monotonic()
        is_free = self._free_at > max(self._held_at, now - FRESH_SECONDS)
        if self.embedder is None or not self.embedder.remote or is_free:
            return timedelta(0)
        budget, tokens = self.budget, self.embedder.tokens
        spending = Spending(tokens=sum(map(tokens, texts)) if budget else 0)
        wait = self._waited = await self._context.store.take(self.space.id, budget, spending)
        if budget is None and not wait:
            self._free_at = now
        if wait:
            self._context.telemetry.emit(
                Event.BUDGET_EMPTY, space=str(self.space), model=self.name, seconds=wait.total_seconds()
            )
        return wait

    async def look(self) -> None:
        """Check ahead of a call whether there is a hold; with a budget only the call itself can."""
        if self.budget is None:
            await self.allowance(())

    async def ask(self, texts: Sequence[str]) -> Vector:
        """Call the embedder once; return checked vectors, or raise an error after counting it."""
        started = self._context.timing.monotonic()
        try:
            answer = await self._answer(texts)
            vectors = await self._checked(answer, len(texts))
        except NotNow as error:
            self._report(len(texts), started, "refused", error)
            raise
        except StoreError:
            raise  # not the embedder's error
        except Exception as error:
            self.streak += 1
            self._context.health.fail(self.name, fault_of(error).code, error)
            self._report(len(texts), started, "failed", error)
            raise
        self.streak = self._throttles = 0
        self._context.health.succeed(self.name)
        self._reported_limits = answer.told
        self._report(len(texts), started, "ok", tokens=answer.tokens)
        return vectors

    async def hold(self, error: NotNow) -> timedelta:
        """Keep the fleet from calling this provider for as long as it asked; return that span."""
        asked = error.retry_after or timedelta(0)
        span = asked if asked > timedelta(0) else delay(THROTTLING, self._throttles, self._context.timing.chance())
        self._throttles += 1
        self._held_at = self._context.timing.monotonic()
        self._context.telemetry.emit(
            Event.THROTTLED,
            level="warning",
            space=str(self.space),
            model=self.name,
            seconds=span.total_seconds(),
            error=str(error),
        )
        await self._context.store.hold(self.space.id, span)
        return span

    async def _answer(self, texts: Sequence[str]) -> Embeddings:
        if self.embedder is None:
            raise Transient(f"{self.name} is not built yet")
        deadline = self._context.options.attempt_deadline.total_seconds()
        try:
            async with asyncio.timeout(deadline):
                return await self.embedder.embed(texts, Purpose.DOCUMENT)
        except TimeoutError as error:
            raise Transient(f"{self.name} did not answer within {deadline:g} s", code="timeout") from error
        except Exception as error:  # noqa: BLE001 any error of an embedder may quote the texts
            raise cleared(error, texts) from None

    async def _checked(self, answer: Embeddings, texts: int) -> Vector:
        """Return checked vectors; the first of a space fix its dimensions."""
        expected = self.space.dimensions
        if expected is None and self.embedder is not None:
            expected = self.embedder.dimensions
        vectors = checked(answer.vectors, texts=texts, dimensions=expected)
        if self.space.dimensions is None:
            fixed = await self._learn(vectors.shape[1])
            self.space = replace(self.space, dimensions=fixed)
            check_dimensions(vectors, fixed)
        return vectors

    async def _learn(self, dimensions: int) -> int:
        """Fix the dimensions of a space; the vectors that are waiting for it are paid for."""
        trouble = Trouble(self._context.telemetry, Event.STORE_TROUBLE, act="learn", space=str(self.space))
        try:
            return await with_retry(
                self._context, trouble, lambda: self._context.store.learn(self.space.id, dimensions)
            )
        except NotFound as error:  # the database was recreated without this space: no job is charged
            raise StoreError(str(error)) from error

    def _report(
        self, texts: int, started: float, outcome: str, error: Exception | None = None, *, tokens: int | None = None
    ) -> None:
        self._context.telemetry.emit(
            Event.EMBEDDED,
            level="warning" if error else "debug",
            space=str(self.space),
            model=self.name,
            purpose=Purpose.DOCUMENT.value,
            texts=texts,
            tokens=tokens,
            seconds=self._context.timing.monotonic() - started,
            outcome=outcome,
            code=fault_of(error).code if error else None,
            error=str(error) if error else None,
        )


def _shown(budget: Budget) -> str:
    """Write a budget for a log line."""
    bounds = [str(budget.requests)] if budget.requests is not None else []
    bounds += [f"{budget.tokens} tokens"] if budget.tokens is not None else []
    return f"{' and '.join(bounds)}/{budget.interval.total_seconds():g}s"
