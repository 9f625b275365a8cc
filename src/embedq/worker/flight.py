"""Texts that are on their way in this process, so that no text is paid for twice."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakSet

from embedq.model import ContentHash, Vector


@dataclass(eq=False)
class Lookup:
    """What was known of a batch's texts at a moment."""

    at: float  # monotonic
    known: Mapping[ContentHash, Vector] = field(default_factory=dict)
    landed: set[ContentHash] = field(default_factory=set)  # what this process has stored since


class Ticket:
    """The texts that one batch brings to the embedder, and the vectors it has got for them."""

    def __init__(self, hashes: Sequence[ContentHash]) -> None:
        """Bring these."""
        self.hashes = hashes
        self.found: dict[ContentHash, Vector] = {}
        self.finished = asyncio.Event()


class Flight:
    """Who brings which text. A ticket stays until its vectors are stored, where a look-up finds them."""

    def __init__(self) -> None:
        """Start with nobody aboard."""
        self._aboard: dict[ContentHash, Ticket] = {}
        self._lookups: WeakSet[Lookup] = WeakSet()

    def watch(self, lookup: Lookup) -> None:
        """Keep a look-up told of what lands after it."""
        self._lookups.add(lookup)

    def board(
        self, hashes: Collection[ContentHash], forced: Collection[ContentHash]
    ) -> tuple[Ticket, Mapping[ContentHash, Ticket]]:
        """Take on the texts that nobody brings; answer with them and with who brings the others.

        A forced text is always taken on: it is to be paid for again.
        """
        theirs: dict[ContentHash, Ticket] = {}
        if not self._aboard.keys().isdisjoint(hashes):
            theirs = {name: self._aboard[name] for name in hashes if name in self._aboard and name not in forced}
        ticket = Ticket([name for name in hashes if name not in theirs] if theirs else list(hashes))
        self._aboard.update(dict.fromkeys(ticket.hashes, ticket))
        return ticket, theirs

    def finish(self, ticket: Ticket) -> None:
        """Tell who waits for this ticket that it has all it will get."""
        self._leave(ticket, (name for name in ticket.hashes if name not in ticket.found))
        ticket.finished.set()

    def land(self, ticket: Ticket) -> None:
        """Let go of a ticket: its vectors are stored, or will not be."""
        self._leave(ticket, ticket.hashes)
        for lookup in self._lookups:
            lookup.landed.update(ticket.hashes)

    def _leave(self, ticket: Ticket, hashes: Iterable[ContentHash]) -> None:
        for name in hashes:
            if self._aboard.get(name) is ticket:
                del self._aboard[name]
