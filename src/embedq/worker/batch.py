"""One batch, from leases to outcomes."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import assert_never

from embedq.errors import NotNow, StoreError
from embedq.model import ContentHash, Done, Fault, Lease, Outcome, Released, Skipped, Vector, WorkerId
from embedq.policy.attempts import Charge, Halt, Halve, Rest, Suspect, Throttle, Verdict, after, fault_of, judge
from embedq.policy.tokens import most_tokens, packed
from embedq.telemetry import Event
from embedq.worker.context import WorkerContext, first_of
from embedq.worker.embedder_state import FRESH_SECONDS, Availability, EmbedderState
from embedq.worker.embedders import Embedders
from embedq.worker.failures import report_failure
from embedq.worker.in_flight import Claim, Lookup

Flush = Callable[[Sequence[Outcome]], Awaitable[None]]
Piece = Sequence[ContentHash]  # texts of one call


class Batch:
    """Leases of one space. After `run`, however it ended, `outcomes` holds one outcome for each not yet flushed."""

    def __init__(
        self, context: WorkerContext, embedders: Embedders, leases: Sequence[Lease], *, worker: WorkerId, flush: Flush
    ) -> None:
        """Process these leases. `flush` is called before a wait: it settles outcomes and releases prefetched leases."""
        self._context = context
        self._embedders = embedders
        self.leases = leases
        self._worker = worker
        self._flush = flush
        self.state: EmbedderState = embedders.state(leases[0].space)
        self.outcomes: list[Outcome] = []
        self.interrupted = False  # the embedder cannot be called now
        self._open: dict[ContentHash, list[Lease]] = {}  # by text, without an outcome yet
        self._forced: set[ContentHash] = set()
        self._claims: list[Claim] = []
        self._lookup: asyncio.Task[Lookup | None] | None = None
        self._after = timedelta(0)
        self._refused: Fault | None = None
        self._sort(leases)

    def look_up(self) -> asyncio.Task[Lookup | None]:
        """Start looking up vectors that were already paid for, while the embedder is busy with another batch."""
        self._lookup = asyncio.create_task(self._look_up())
        return self._lookup

    async def run(self) -> None:
        """Give every lease an outcome; those that were not processed are released."""
        try:
            while self._open and not self.interrupted:
                await self._round()
        finally:
            self._release()

    def release(self) -> None:
        """Release the claimed texts: their vectors are settled."""
        for claim in self._claims:
            self.state.in_flight.release(claim)

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
        """Embed the texts that no other batch embeds, then reuse the vectors of the others."""
        claim, theirs = self.state.in_flight.claim(self._open.keys(), self._forced)
        self._claims.append(claim)
        try:
            await self._embed(claim)
        finally:
            self.state.in_flight.finish(claim)
        for other in set(theirs.values()):
            await self._take_over(other)

    async def _embed(self, claim: Claim) -> None:
        known = await self._known(claim.hashes)
        self._reuse(known, claim)
        pieces = deque(self._pieces([name for name in claim.hashes if name not in known]))
        while pieces and not self.interrupted:
            # FIFO: good halves are tried between bad ones, so one bad text causes no long streak of failures
            pieces.extend(await self._call(pieces.popleft(), claim))

    async def _look_up(self) -> Lookup | None:
        lookup = Lookup(at=self._context.timing.monotonic())
        self.state.in_flight.watch(lookup)
        try:
            lookup.known = await self._ask_store(list(self._open))
            await self.state.look()
        except StoreError:  # it is looked up again when the batch runs
            return None
        return lookup

    async def _known(self, names: Sequence[ContentHash]) -> Mapping[ContentHash, Vector]:
        """Find vectors that were already paid for: by the earlier look-up if it is still fresh, else by a new one."""
        lookup = await self._lookup if self._lookup is not None else None
        self._lookup = None
        if lookup is None or self._context.timing.monotonic() - lookup.at > FRESH_SECONDS:
            return await self._ask_store(names)
        found = {name: lookup.known[name] for name in names if name in lookup.known}
        return found | await self._ask_store([name for name in names if name in lookup.stored_since])

    async def _ask_store(self, names: Sequence[ContentHash]) -> dict[ContentHash, Vector]:
        wanted = [name for name in names if name not in self._forced]
        return dict(await self._context.store.known(self.state.space.id, wanted)) if wanted else {}

    async def _take_over(self, other: Claim) -> None:
        if not other.finished.is_set() and not self.interrupted:
            await self._flush_outcomes()
            await first_of(other.finished.wait(), self._context.stopping.wait())
            self.interrupted = self._context.stopping.is_set()
        self._reuse({name: vector for name, vector in other.found.items() if name in self._open})

    async def _call(self, piece: Piece, claim: Claim) -> Sequence[Piece]:
        """Embed some texts in one call; return the pieces to retry."""
        texts = [self._text(name) for name in piece]
        if not await self._may_call(texts):
            return ()
        try:
            vectors = await self.state.ask(texts)
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 the attempt: any error of an embedder is judged, not raised
            return await self._apply(await self._judge(error, len(piece)), error, piece)
        found = dict(zip(piece, vectors, strict=True))
        claim.found.update(found)
        self._finish(found)
        return ()

    async def _may_call(self, texts: Sequence[str]) -> bool:
        """Take a call from the budget; False: the batch is released, so that another space can be leased."""
        can_ask = self.state.availability is Availability.READY and not self._context.stopping.is_set()
        if can_ask and not await self.state.allowance(texts):
            return True
        self.interrupted = True
        return False

    async def _judge(self, error: Exception, texts: int) -> Verdict:
        retry, chance = self._any_lease().retry, self._context.timing.chance()
        verdict = judge(error, texts=texts, streak=self.state.streak, retry=retry, chance=chance)
        if isinstance(verdict, Suspect):
            if not await self._embedders.passes_probe(self.state, error):
                return Rest()
            return judge(error, texts=texts, streak=1, retry=retry, chance=chance)
        return verdict

    async def _apply(self, verdict: Verdict, error: Exception, piece: Piece) -> Sequence[Piece]:
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
                self._embedders.rest(self.state, error)
                self.interrupted = True
            case Halt():
                self._embedders.halt(self.state, error)
                self.interrupted = True
            case _:
                assert_never(verdict)
        return ()

    async def _throttle(self, error: Exception) -> None:
        """Release the whole batch: the provider asked to wait."""
        self.interrupted = True
        self._refused = fault_of(error)
        if isinstance(error, NotNow):
            self._after = await self.state.hold(error)

    def _charge(self, error: Exception, name: ContentHash) -> None:
        fault = fault_of(error)
        for lease in self._open.pop(name):
            outcome = after(error, lease, fault, self._context.timing.chance())
            self.outcomes.append(outcome)
            report_failure(self._context.telemetry, outcome, worker=self._worker, state=self.state)

    async def _wait(self, span: timedelta) -> None:
        await self._flush_outcomes()
        await self._context.sleep(span)

    async def _flush_outcomes(self) -> None:
        outcomes, self.outcomes = self.outcomes, []
        try:
            await self._flush(outcomes)
        except StoreError:  # they are settled when the batch ends
            self.outcomes = [*outcomes, *self.outcomes]
            raise

    def _reuse(self, known: Mapping[ContentHash, Vector], claim: Claim | None = None) -> None:
        if not known:
            return
        if claim is not None:
            claim.found.update(known)
        count = self._finish(known)
        self._context.telemetry.emit(Event.REUSED, level="debug", space=str(self.state.space), count=count)

    def _finish(self, found: Mapping[ContentHash, Vector]) -> int:
        """Give each lease of these texts its vector; return how many."""
        embedder, before = self.state.embedder, len(self.outcomes)
        for name, vector in found.items():
            truncated = embedder is not None and embedder.truncates(self._text(name))
            self.outcomes.extend(Done(lease, vector, truncated) for lease in self._open.pop(name))
        return len(self.outcomes) - before

    def _release(self) -> None:
        for leases in self._open.values():
            self.outcomes.extend(Released(lease, after=self._after, refused=self._refused) for lease in leases)
        self._open.clear()

    def _pieces(self, names: Sequence[ContentHash]) -> Sequence[Piece]:
        embedder = self.state.embedder
        if embedder is None:  # the call itself will report it
            return [names] if names else []
        tokens = most_tokens(embedder.limits, self.state.budget)

        def count(name: ContentHash) -> int:
            return embedder.tokens(self._text(name))

        return packed(names, inputs=embedder.limits.inputs, tokens=tokens, count=count)

    def _text(self, name: ContentHash) -> str:
        return self._open[name][0].text or ""

    def _any_lease(self) -> Lease:
        return next(iter(self._open.values()))[0]
