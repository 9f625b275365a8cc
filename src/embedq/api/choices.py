"""Which embedders a caller may choose: another one may cost money, or send texts to a third party."""

from embedq.client import Client
from embedq.errors import Forbidden, Invalid, SettingsError

ANY = "*"
VARIABLE = "EMBEDQ_ALLOWED_EMBEDDERS"


class Choices:
    """The embedders that requests may name. It does not restrict the operator."""

    def __init__(self, client: Client, allowed: str | None) -> None:
        """Allow those of a comma-separated list, all for `*`, or without a list those that are in use."""
        self._client = client
        names = None if allowed is None else [name.strip() for name in allowed.split(",")]
        self._any = names == [ANY]
        try:
            self._listed = None if names is None or self._any else frozenset(map(client.embedder, names))
        except Invalid as problem:
            raise SettingsError(f"{VARIABLE}: {problem}") from problem

    async def check(self, collection: str | None, given: str) -> None:
        """Refuse an embedder that is not allowed: neither listed, nor the default, nor this collection's own."""
        wanted = self._client.embedder(given)
        if self._any:
            return
        used = {found.declaration.name: found.declaration.embedder for found in await self._client.collections()}
        listed = set(used.values()) if self._listed is None else self._listed
        allowed = {self._client.embedder(), *listed}
        if wanted not in allowed | {used.get(collection or "")}:
            names = ", ".join(sorted(map(str, allowed)))
            raise Forbidden(
                f"{wanted} is not allowed here: choose one of {names}, or ask the operator for it ({VARIABLE})"
            )
