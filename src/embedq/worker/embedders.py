"""The embedders that this process uses, and which of them can be called."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from embedq.errors import Critical, NotNow, SettingsError
from embedq.model import EmbedderName, SpaceId
from embedq.policy.attempts import RESTING, SUSPICIOUS_STREAK, delay, fault_of
from embedq.ports import Embedder
from embedq.telemetry import Event
from embedq.worker.context import WorkerContext
from embedq.worker.embedder_state import Availability, EmbedderState

Build = Callable[[EmbedderName], Embedder]  # may block; its provider owns the embedders and closes them

PROBE = "Is anybody there?"  # harmless: if this fails, the embedder is at fault
REFRESH_EVERY = timedelta(seconds=5)  # how soon a busy worker sees a new space


class Embedders:
    """States by space. A resting embedder is probed by one task, so there is one probe at a time."""

    def __init__(self, context: WorkerContext, build: Build) -> None:
        """Build embedders with `build`, each when its space is first seen."""
        self._context = context
        self._build = build
        self._states: dict[SpaceId, EmbedderState] = {}
        self._recoveries: dict[SpaceId, asyncio.Task[None]] = {}
        self._refreshing = asyncio.Lock()
        self._refresh_at = 0.0
        self.changed = asyncio.Event()  # an embedder can be called again

    @property
    def is_empty(self) -> bool:
        """Say whether no space was seen yet."""
        return not self._states

    def open(self) -> Sequence[SpaceId]:
        """List the spaces whose embedder can be called now."""
        return [space for space, state in self._states.items() if state.availability is Availability.READY]

    def state(self, space: SpaceId) -> EmbedderState:
        """Find the state of a space that was leased."""
        return self._states[space]

    def name(self, space: SpaceId) -> str:
        """Name a space as logs and metrics do."""
        return str(self._states[space].space) if space in self._states else str(space)

    def is_stale(self) -> bool:
        """Say whether it is time to look for new spaces."""
        return self._context.timing.monotonic() >= self._refresh_at

    async def refresh(self) -> bool:
        """Look for new spaces and build their embedders; say whether one of them can be called."""
        async with self._refreshing:
            asked_at = self._context.timing.monotonic()  # what changes while the answer is on its way is not in it
            spaces = {space.id: space for space in await self._context.store.spaces()}
            self._refresh_at = asked_at + REFRESH_EVERY.total_seconds()
            for state in list(self._states.values()):
                if state.space.id not in spaces:
                    self._retire(state)
                else:  # a recreated database has yet to learn its dimensions
                    state.space = spaces[state.space.id]
            fresh = [EmbedderState(self._context, space) for id_, space in spaces.items() if not self._has(id_)]
            for state in fresh:
                self._states[state.space.id] = state
                await self._build_for(state)
            return any(state.availability is Availability.READY for state in fresh)

    def rest(self, state: EmbedderState, error: Exception) -> None:
        """Let an embedder back off as a whole, until a probe succeeds."""
        if state.availability is not Availability.READY:
            return
        state.availability = Availability.RESTING
        self._context.telemetry.emit(
            Event.EMBEDDER_BACKOFF, level="warning", failures=state.streak, **_facts(state, error)
        )
        self._context.health.rest(state.name, error)
        self._recover(state)

    def halt(self, state: EmbedderState, error: Exception) -> None:
        """Stop calling an embedder until an operator acts."""
        if state.availability is Availability.HALTED:
            return
        state.availability = Availability.HALTED
        self._context.telemetry.emit(Event.EMBEDDER_HALTED, level="critical", **_facts(state, error))
        self._context.health.halt(state.name, error)

    def revive(self) -> None:
        """Try every halted or resting embedder again at once, and look for spaces before the next lease."""
        self._refresh_at = 0.0
        for state in self._states.values():
            if state.availability in {Availability.RESTING, Availability.HALTED}:
                state.availability = Availability.RESTING
                self._context.health.unhalt(state.name)
                self._recover(state, at_once=True)

    async def passes_probe(self, state: EmbedderState, error: Exception) -> bool:
        """Probe an embedder with many failures; if the probe fails, let it rest.

        A concurrent caller gets the result of the first probe.
        """
        async with state.probing:
            if state.availability is not Availability.READY or state.streak < SUSPICIOUS_STREAK:
                return state.availability is Availability.READY
            is_well = await self._probe(state, can_wait=False)  # a batch is waiting
            if not is_well:
                self.rest(state, error)
            return is_well

    async def close(self) -> None:
        """Stop probing."""
        recoveries = list(self._recoveries.values())
        self._recoveries.clear()
        for task in recoveries:
            task.cancel()
        await asyncio.gather(*recoveries, return_exceptions=True)

    async def _probe(self, state: EmbedderState, *, can_wait: bool) -> bool:
        """Probe an embedder. If the budget is exhausted, wait or return False."""
        try:
            if state.embedder is None:
                state.embedder = await asyncio.to_thread(self._build, state.space.embedder)
            while wait := await state.allowance([PROBE]):
                if not can_wait or self._context.stopping.is_set():
                    return False
                await self._context.sleep(wait)
            await self._ask(state)
        except (Critical, SettingsError) as error:
            self.halt(state, error)
            return False
        except Exception as error:  # noqa: BLE001 any error means "not yet"; the call has reported it
            if state.availability is Availability.RESTING:
                self._context.health.rest(state.name, error)
            return False
        return True

    async def _ask(self, state: EmbedderState) -> None:
        try:
            await state.ask([PROBE])
        except NotNow as error:
            await state.hold(error)  # it responds: the hold keeps the fleet away for as long as it asked
            state.streak = 0

    async def _build_for(self, state: EmbedderState) -> None:
        try:
            state.embedder = await asyncio.to_thread(self._build, state.space.embedder)
        except (Critical, SettingsError) as error:
            self.halt(state, error)
        except Exception as error:  # noqa: BLE001 an embedder that cannot be built now must not stop the others
            state.availability = Availability.READY
            self.rest(state, error)
        else:
            state.availability = Availability.READY

    def _recover(self, state: EmbedderState, *, at_once: bool = False) -> None:
        running = self._recoveries.pop(state.space.id, None)
        if running is not None:
            running.cancel()
        self._recoveries[state.space.id] = asyncio.create_task(self._recovery(state, at_once=at_once))

    async def _recovery(self, state: EmbedderState, *, at_once: bool) -> None:
        rests = 0
        while not self._context.stopping.is_set() and state.availability is Availability.RESTING:
            if not at_once:
                await self._context.sleep(delay(RESTING, rests, self._context.timing.chance()))
                rests += 1
            at_once = False
            if not self._context.stopping.is_set() and await self._probe(state, can_wait=True):
                state.availability = Availability.READY
                self._context.health.unhalt(state.name)
                self.changed.set()

    def _has(self, space: SpaceId) -> bool:
        return space in self._states and self._states[space].availability is not Availability.GONE

    def _retire(self, state: EmbedderState) -> None:
        """Keep the state, since a batch may still use it, but lease nothing for it."""
        state.availability = Availability.GONE
        self._context.health.unhalt(state.name)
        running = self._recoveries.pop(state.space.id, None)
        if running is not None:
            running.cancel()


def _facts(state: EmbedderState, error: Exception) -> dict[str, object]:
    fault = fault_of(error)
    return {
        "space": str(state.space),
        "model": state.name,
        "errorType": fault.category.value,
        "code": fault.code,
        "error": fault.message,
        "stack": fault.stack,
    }
