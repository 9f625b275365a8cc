"""Opening and closing."""

from typing import Protocol


class Lifetime(Protocol):
    """A database that is open."""

    async def close(self) -> None:
        """Flush, and release files, threads and connections."""
        ...

    async def check(self) -> None:
        """Return, or raise a StoreError that says why the database cannot be used."""
        ...
