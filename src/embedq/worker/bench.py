"""The embedders that this process uses: which can be asked, which rest, which wait for a person."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from embedq.errors import Critical, NotNow, SettingsError
from embedq.model import EmbedderName, SpaceId
from embedq.policy.attempts import RESTING, SUSPICIOUS_STREAK, delay, fault_of
from embedq.ports import Embedder
from embedq.telemetry import Event
from embedq.worker.kit import Kit
from embedq.worker.seat import Seat, State

Build = Callable[[EmbedderName], Embedder]  # may block; who hands it in owns the embedders and closes them

PROBE = "Is anybody there?"  # harmless: if even this fails, it is not the texts' fault
REFRESH_EVERY = timedelta(seconds=5)  # how soon a busy worker sees a new space


class Bench:
    """Seats by space. An embedder that rests is probed by one task, so there is one probe at a time."""

    def __init__(self, kit: Kit, build: Build) -> None:
        """Build embedders by `build`, each when its space is first seen."""
        self._kit = kit
        self._build = build
        self._seats: dict[SpaceId, Seat] = {}
        self._recoveries: dict[SpaceId, asyncio.Task[None]] = {}
        self._refreshing = asyncio.Lock()
        self._refresh_at = 0.0
        self.changed = asyncio.Event()  # an embedder can be asked again

    @property
    def is_empty(self) -> bool:
        """Say whether no space was ever seen."""
        return not self._seats

    def open(self) -> Sequence[SpaceId]:
        """List the spaces whose embedder can be asked now."""
        return [space for space, seat in self._seats.items() if seat.state is State.READY]

    def seat(self, space: SpaceId) -> Seat:
        """Find the seat of a space that was leased."""
        return self._seats[space]

    def name(self, space: SpaceId) -> str:
        """Name a space as logs and metrics do."""
        return str(self._seats[space].space) if space in self._seats else str(space)

    def is_stale(self) -> bool:
        """Say whether it is time to look for new spaces."""
        return self._kit.timing.monotonic() >= self._refresh_at

    async def refresh(self) -> bool:
        """Look for new spaces and build their embedders; say whether one more can be asked."""
        async with self._refreshing:
            spaces = {space.id: space for space in await self._kit.store.spaces()}
            self._refresh_at = self._kit.timing.monotonic() + REFRESH_EVERY.total_seconds()
            for seat in list(self._seats.values()):
                now = spaces.get(seat.space.id)
                if now is None or now.embedder != seat.space.embedder:  # its number may be another's by now
                    self._retire(seat)
            fresh = [Seat(self._kit, space) for id_, space in spaces.items() if not self._has(id_)]
            for seat in fresh:
                self._seats[seat.space.id] = seat
                await self._furnish(seat)
            return any(seat.state is State.READY for seat in fresh)

    def rest(self, seat: Seat, error: Exception) -> None:
        """Let an embedder back off as a whole; a probe will find out when it is well."""
        if seat.state is not State.READY:
            return
        seat.state = State.RESTING
        self._kit.telemetry.emit(Event.EMBEDDER_BACKOFF, level="warning", failures=seat.streak, **_facts(seat, error))
        self._kit.pulse.rest(seat.name, error)
        self._recover(seat)

    def halt(self, seat: Seat, error: Exception) -> None:
        """Stop asking an embedder until a person acts."""
        if seat.state is State.HALTED:
            return
        seat.state = State.HALTED
        self._kit.telemetry.emit(Event.EMBEDDER_HALTED, level="critical", **_facts(seat, error))
        self._kit.pulse.halt(seat.name, error)

    def revive(self) -> None:
        """Try every embedder that halts or rests again, at once."""
        for seat in self._seats.values():
            if seat.state in {State.RESTING, State.HALTED}:
                seat.state = State.RESTING
                self._kit.pulse.unhalt(seat.name)
                self._recover(seat, at_once=True)

    async def trusts(self, seat: Seat, error: Exception) -> bool:
        """Find out by a probe whether an embedder with many failures behind it is well; if not, let it rest.

        Whoever comes second gets the first one's finding.
        """
        async with seat.probing:
            if seat.state is not State.READY or seat.streak < SUSPICIOUS_STREAK:
                return seat.state is State.READY
            is_well = await self._is_well(seat, patient=False)  # a batch is in hand
            if not is_well:
                self.rest(seat, error)
            return is_well

    async def close(self) -> None:
        """Stop probing."""
        recoveries = list(self._recoveries.values())
        self._recoveries.clear()
        for task in recoveries:
            task.cancel()
        await asyncio.gather(*recoveries, return_exceptions=True)

    async def _is_well(self, seat: Seat, *, patient: bool) -> bool:
        """Find out by a probe. Without a request in the budget the patient wait, and for others it is not well."""
        try:
            if seat.embedder is None:
                seat.embedder = await asyncio.to_thread(self._build, seat.space.embedder)
            while wait := await seat.allowance():
                if not patient or self._kit.stopping.is_set():
                    return False
                await self._kit.nap(wait)
            await self._ask(seat)
        except (Critical, SettingsError) as error:
            self.halt(seat, error)
            return False
        except Exception as error:  # noqa: BLE001 whatever a probe meets, the answer is "not yet"; the call has told why
            if seat.state is State.RESTING:
                self._kit.pulse.rest(seat.name, error)
            return False
        return True

    async def _ask(self, seat: Seat) -> None:
        try:
            await seat.ask([PROBE])
        except NotNow as error:
            await seat.hold(error)  # it is there: the hold keeps everybody away as long as it asked for
            seat.streak = 0

    async def _furnish(self, seat: Seat) -> None:
        try:
            seat.embedder = await asyncio.to_thread(self._build, seat.space.embedder)
        except (Critical, SettingsError) as error:
            self.halt(seat, error)
        except Exception as error:  # noqa: BLE001 an embedder that cannot be built now must not stop the others
            seat.state = State.READY
            self.rest(seat, error)
        else:
            seat.state = State.READY

    def _recover(self, seat: Seat, *, at_once: bool = False) -> None:
        running = self._recoveries.pop(seat.space.id, None)
        if running is not None:
            running.cancel()
        self._recoveries[seat.space.id] = asyncio.create_task(self._recovery(seat, at_once=at_once))

    async def _recovery(self, seat: Seat, *, at_once: bool) -> None:
        rests = 0
        while not self._kit.stopping.is_set() and seat.state is State.RESTING:
            if not at_once:
                await self._kit.nap(delay(RESTING, rests, self._kit.timing.chance()))
                rests += 1
            at_once = False
            if not self._kit.stopping.is_set() and await self._is_well(seat, patient=True):
                seat.state = State.READY
                self._kit.pulse.unhalt(seat.name)
                self.changed.set()

    def _has(self, space: SpaceId) -> bool:
        return space in self._seats and self._seats[space].state is not State.GONE

    def _retire(self, seat: Seat) -> None:
        """Keep the seat, since a batch may still sit on it, but lease nothing for it."""
        seat.state = State.GONE
        self._kit.pulse.unhalt(seat.name)
        running = self._recoveries.pop(seat.space.id, None)
        if running is not None:
            running.cancel()


def _facts(seat: Seat, error: Exception) -> dict[str, object]:
    fault = fault_of(error)
    return {
        "space": str(seat.space),
        "model": seat.name,
        "errorType": fault.category.value,
        "code": fault.code,
        "error": fault.message,
        "stack": fault.stack,
    }
