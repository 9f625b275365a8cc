"""Texts that this process is embedding, so that no text is paid for twice."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakSet

from embedq.model import ContentHash, Vector


@dataclass(eq=False)
class Lookup:
    """The known vectors of a batch's texts at one time."""

    at: float  # monotonic
    known: Mapping[ContentHash, Vector] = field(default_factory=dict)
    stored_since: set[ContentHash] = field(default_factory=set)  # by this process


class Claim:
    """The texts that one batch embeds, and their vectors so far."""

    def __init__(self, hashes: Sequence[ContentHash]) -> None:
        """Claim these texts."""
        self.hashes = hashes
        self.found: dict[ContentHash, Vector] = {}
        self.finished = asyncio.Event()


class InFlight:
    """The claim of each text. A claim stays until its vectors are stored, where a look-up finds them."""

    def __init__(self) -> None:
        """Start without claims."""
        self._claims: dict[ContentHash, Claim] = {}
        self._lookups: WeakSet[Lookup] = WeakSet()

    def watch(self, lookup: Lookup) -> None:
        """Update a look-up with what is stored after it."""
        self._lookups.add(lookup)

    def claim(
        self, hashes: Collection[ContentHash], forced: Collection[ContentHash]
    ) -> tuple[Claim, Mapping[ContentHash, Claim]]:
        """Claim the texts that no batch has claimed; return this claim, and the claims of the others.

        A forced text is always claimed: it is to be paid for again.
        """
        theirs: dict[ContentHash, Claim] = {}
        if not self._claims.keys().isdisjoint(hashes):
            theirs = {name: self._claims[name] for name in hashes if name in self._claims and name not in forced}
        claim = Claim([name for name in hashes if name not in theirs] if theirs else list(hashes))
        self._claims.update(dict.fromkeys(claim.hashes, claim))
        return claim, theirs

    def finish(self, claim: Claim) -> None:
        """Wake the waiters of this claim: it gets no more vectors."""
        self._remove(claim, (name for name in claim.hashes if name not in claim.found))
        claim.finished.set()

    def release(self, claim: Claim) -> None:
        """Remove a claim: its vectors are stored, or will not be."""
        self._remove(claim, claim.hashes)
        for lookup in self._lookups:
            lookup.stored_since.update(claim.hashes)

    def _remove(self, claim: Claim, hashes: Iterable[ContentHash]) -> None:
        for name in hashes:
            if self._claims.get(name) is claim:
                del self._claims[name]
