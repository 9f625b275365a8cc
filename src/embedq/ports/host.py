"""Information about the machine that a process runs on."""

from typing import Protocol

from embedq.model import (
    Process,
)


class Liveness(Protocol):
    """Tells live processes of this host from dead ones."""

    def me(self) -> Process:
        """Describe this process."""
        ...

    def is_dead(self, process: Process) -> bool:
        """Return True only if it ran on this host and certainly no longer runs."""
        ...
