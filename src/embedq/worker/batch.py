"""One batch, from leases to outcomes."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import assert_never

from embedq.errors import NotNow, StoreError
from embedq.model import ContentHash, Done, Fault, Lease, Outcome, Released, Skipped, Vector, WorkerId
from embedq.policy.attempts import Charge, Halt, Halve, Rest, Suspect, Throttle, Verdict, after, fault_of, judge
from embedq.telemetry import Event
from embedq.worker.bench import Bench
from embedq.worker.failures import tell_failure
from embedq.worker.flight import Lookup, Ticket
from embedq.worker.kit import Kit, first_of
from embedq.worker.seat import FRESH_SECONDS, Seat, State

Flush = Callable[[Sequence[Outcome]], Awaitable[None]]
Piece = Sequence[ContentHash]  # texts of one call


class Batch:
    """Leases of one space. After `run`, however it ended, `outcomes` holds one outcome for each not yet flushed."""

    def __init__(self, kit: Kit, bench: Bench, leases: Sequence[Lease], *, worker: WorkerId, flush: Flush) -> None:
        """Take these leases on. `flush` is called before a wait: it settles what is done and gives up what waits."""
        self._kit = kit
        self._bench = bench
        self.leases = leases
        self._worker = worker
        self._flush = flush
        self.seat: Seat = bench.seat(leases[0].space)
        self.outcomes: list[Outcome] = []
        self.interrupted = False  # the embedder cannot be asked now
        self._open: dict[ContentHash, list[Lease]] = {}  # by text, still without an outcome
        self._forced: set[ContentHash] = set()
        self._tickets: list[Ticket] = []
        self._lookup: asyncio.Task[Lookup | None] | None = None
        self._after = timedelta(0)
        self._refused: Fault | None = None
        self._sort(leases)

    def look_up(self) -> asyncio.Task[Lookup | None]:
        """Begin to look for vectors that were paid for already; the embedder may still be busy with another batch."""
        self._lookup = asyncio.create_task(self._look_up())
        return self._lookup

    async def run(self) -> None:
        """Bring every lease to an outcome; those whose turn did not come are released."""
        try:
            while self._open and not self.interrupted:
                await self._round()
        finally:
            self._release()

    def land(self) -> None:
        """Let go of the texts that were brought: their vectors are settled."""
        for ticket in self._tickets:
            self.seat.flight.land(ticket)

    def _sort(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            if lease.text is None:
                self.outcomes.append(Skipped(lease))
            elif lease.current and not lease.forced:
                self.outcomes.append(Done(lease))
            else:
                self._open.setdefault(lease.hash, []).append(lease)
                if lease.forced:
                    self._forced.add(lease.hash)

    async def _round(self) -> None:
        """Bring the texts that nobody else brings, then take over what others brought."""
        ticket, theirs = self.seat.flight.board(self._open.keys(), self._forced)
        self._tickets.append(ticket)
        try:
            await self._bring(ticket)
        finally:
            self.seat.flight.finish(ticket)
        for other in set(theirs.values()):
            await self._take_over(other)

    async def _bring(self, ticket: Ticket) -> None:
        known = await self._known(ticket.hashes)
        self._reuse(known, ticket)
        pieces = deque(self._pieces([name for name in ticket.hashes if name not in known]))
        while pieces and not self.interrupted:
            # first in, first out: a good half is tried between two bad ones, so one bad text makes no long streak
            pieces.extend(await self._call(pieces.popleft(), ticket))

    async def _look_up(self) -> Lookup | None:
        lookup = Lookup(at=self._kit.timing.monotonic())
        self.seat.flight.watch(lookup)
        try:
            lookup.known = await self._ask_store(list(self._open))
            await self.seat.look()
        except StoreError:  # it is looked up again when the batch's turn comes
            return None
        return lookup

    async def _known(self, names: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
        """Find vectors that were paid for already: by the look-up made before, as far as it holds, else by another."""
        lookup = await self._lookup if self._lookup is not None else None
        self._lookup = None
        if lookup is None or self._kit.timing.monotonic() - lookup.at > FRESH_SECONDS:
            return await self._ask_store(names)
        found = {name: lookup.known[name] for name in names if name in lookup.known}
        return found | await self._ask_store([name for name in names if name in lookup.landed])

    async def _ask_store(self, names: Sequence[ContentHash]) -> dict[ContentHash, Vector]:
        wanted = [name for name in names if name not in self._forced]
        return dict(await self._kit.store.known(self.seat.space.id, wanted)) if wanted else {}

    async def _take_over(self, other: Ticket) -> None:
        if not other.finished.is_set() and not self.interrupted:
            await self._hand_on()
            await first_of(other.finished.wait(), self._kit.stopping.wait())
            self.interrupted = self._kit.stopping.is_set()
        self._reuse({name: vector for name, vector in other.found.items() if name in self._open})

    async def _call(self, piece: Piece, ticket: Ticket) -> Sequence[Piece]:
        """Embed some texts in one call; answer with the pieces to go on with."""
        if not await self._may_call():
            return ()
        try:
            vectors = await self.seat.ask([self._text(name) for name in piece])
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 the attempt: whatever an embedder raises is judged, not passed on
            return await self._follow(await self._judge(error, len(piece)), error, piece)
        found = dict(zip(piece, vectors, strict=True))
        ticket.found.update(found)
        self._finish(found)
        return ()

    async def _may_call(self) -> bool:
        """Take one request from the budget; False: the batch goes back, and another space gets its turn."""
        can_ask = self.seat.state is State.READY and not self._kit.stopping.is_set()
        if can_ask and not await self.seat.allowance():
            return True
        self.interrupted = True
        return False

    async def _judge(self, error: Exception, texts: int) -> Verdict:
        retry, chance = self._any_lease().retry, self._kit.timing.chance()
        verdict = judge(error, texts=texts, streak=self.seat.streak, retry=retry, chance=chance)
        if isinstance(verdict, Suspect):
            if not await self._bench.trusts(self.seat, error):
                return Rest()
            return judge(error, texts=texts, streak=1, retry=retry, chance=chance)
        return verdict

    async def _follow(self, verdict: Verdict, error: Exception, piece: Piece) -> Sequence[Piece]:
        match verdict:
            case Halve():
                if verdict.after:
                    await self._wait(verdict.after)
                middle = len(piece) // 2
                return piece[:middle], piece[middle:]
            case Charge():
                self._charge(error, piece[0])
            case Throttle():
                await self._throttle(error)
            case Rest() | Suspect():
                self._bench.rest(self.seat, error)
                self.interrupted = True
            case Halt():
                self._bench.halt(self.seat, error)
                self.interrupted = True
            case _:
                assert_never(verdict)
        return ()

    async def _throttle(self, error: Exception) -> None:
        """Give the whole batch back: the provider itself said "not now"."""
        self.interrupted = True
        self._refused = fault_of(error)
        if isinstance(error, NotNow):
            self._after = await self.seat.hold(error)

    def _charge(self, error: Exception, name: ContentHash) -> None:
        fault = fault_of(error)
        for lease in self._open.pop(name):
            outcome = after(error, lease, fault, self._kit.timing.chance())
            self.outcomes.append(outcome)
            tell_failure(self._kit.telemetry, outcome, worker=self._worker, seat=self.seat)

    async def _wait(self, span: timedelta) -> None:
        await self._hand_on()
        await self._kit.nap(span)

    async def _hand_on(self) -> None:
        outcomes, self.outcomes = self.outcomes, []
        await self._flush(outcomes)

    def _reuse(self, known: Mapping[ContentHash, Vector], ticket: Ticket | None = None) -> None:
        if not known:
            return
        if ticket is not None:
            ticket.found.update(known)
        count = self._finish(known)
        self._kit.telemetry.emit(Event.REUSED, level="debug", space=str(self.seat.space), count=count)

    def _finish(self, found: Mapping[ContentHash, Vector]) -> int:
        """Give each lease of these texts its vector; answer with how many that were."""
        embedder, before = self.seat.embedder, len(self.outcomes)
        for name, vector in found.items():
            truncated = embedder is not None and embedder.truncates(self._text(name))
            self.outcomes.extend(Done(lease, vector, truncated) for lease in self._open.pop(name))
        return len(self.outcomes) - before

    def _release(self) -> None:
        for leases in self._open.values():
            self.outcomes.extend(Released(lease, after=self._after, refused=self._refused) for lease in leases)
        self._open.clear()

    def _pieces(self, names: Sequence[ContentHash]) -> Sequence[Piece]:
        size = max(1, self.seat.embedder.max_inputs) if self.seat.embedder is not None else len(names)
        return [names[start : start + size] for start in range(0, len(names), size)]

    def _text(self, name: ContentHash) -> str:
        return self._open[name][0].text or ""

    def _any_lease(self) -> Lease:
        return next(iter(self._open.values()))[0]
