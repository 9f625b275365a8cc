"""What a process knows of the machine it runs on."""

from typing import Protocol

from embedq.model import (
    Process,
)


class Liveness(Protocol):
    """What this host knows of its own processes."""

    def me(self) -> Process:
        """Describe this process."""
        ...

    def is_dead(self, process: Process) -> bool:
        """True only if it ran on this host and surely runs no more."""
        ...
