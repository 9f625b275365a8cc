"""The settings of workers."""

from dataclasses import dataclass
from datetime import timedelta

from embedq.model import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """How many workers run, and their intervals and limits."""

    workers: int = 2
    batch_size: int = 100
    lease: timedelta = timedelta(seconds=300)
    heartbeat: timedelta = timedelta(seconds=60)
    attempt_deadline: timedelta = timedelta(seconds=120)  # of one embedder call
    poll_interval: timedelta = timedelta(seconds=5)  # at most this long between polls of the queue
    budget: Budget | None = None  # of remote embedders; None: only a provider's own limits apply
    grace: timedelta = timedelta(seconds=30)  # how long a stop waits for calls in progress
    embedder: str = ""  # the default embedder's name, as the registry shows it
