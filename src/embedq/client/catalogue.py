"""Collections, cached briefly so that a write does not read them twice."""

from collections.abc import Sequence
from time import monotonic

from embedq.client.intake import check_collection
from embedq.model import Collection, Declaration
from embedq.policy.naming import no_collection
from embedq.ports import Declaring

DECLARE_OR_PUT = "declare it, or put a first record into it"
DECLARE_FIRST = "declare it first (EMBEDQ_STRICT=1: a put declares none)"
TRUSTED_SECONDS = 1.0  # cache lifetime: a change by another process is seen after this


class Catalogue:
    """The collections of a store."""

    def __init__(self, store: Declaring, *, strict: bool = False) -> None:
        """Cache the collections of this store; `strict`: a first put does not declare one."""
        self._store = store
        self.strict = strict
        self._advice = DECLARE_FIRST if strict else DECLARE_OR_PUT
        self._known: dict[str, Collection] = {}
        self._read_at = -TRUSTED_SECONDS

    async def all(self) -> Sequence[Collection]:
        """List the collections by name, bypassing the cache."""
        found = await self._store.collections()
        self._known = {collection.declaration.name: collection for collection in found}
        self._read_at = monotonic()
        return found

    async def find(self, name: str) -> Collection | None:
        """Find a collection; None if it is not declared."""
        if name not in self._known or monotonic() - self._read_at > TRUSTED_SECONDS:
            await self.all()
        return self._known.get(name)

    async def look_up(self, name: str) -> Collection:
        """Find a collection, or raise NotFound."""
        check_collection(name)
        found = await self.find(name)
        if found is None:
            raise no_collection(name, self._known, self._advice)
        return found

    async def look_up_learnt(self, name: str) -> Collection:
        """Find a collection with its space's dimensions, which the first vectors may have just fixed.

        Known dimensions stay cached until the store refuses the space.
        """
        check_collection(name)
        found = self._known.get(name)
        if found is None or found.space.dimensions is None:
            await self.all()
            found = await self.look_up(name)
        return found

    async def text_from(self, name: str) -> tuple[str, ...] | None:
        """Say which attributes make the texts of a collection; None: records have their own, or it is not declared."""
        found = await self.find(name)
        return found.declaration.text_from if found else None

    async def declare(self, declaration: Declaration) -> Collection:
        """Declare a collection and cache it."""
        made = await self._store.declare(declaration)
        self._known[declaration.name] = made
        return made

    def forget(self, name: str) -> None:
        """Drop this collection from the cache."""
        self._known.pop(name, None)
