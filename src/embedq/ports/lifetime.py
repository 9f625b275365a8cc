"""What is opened is closed."""

from typing import Protocol


class Lifetime(Protocol):
    """A database that is open."""

    async def close(self) -> None:
        """Flush, and let go of files, threads and connections."""
        ...

    async def check(self) -> None:
        """Answer, or raise a StoreError that says why the database cannot be used."""
        ...
