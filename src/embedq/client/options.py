"""What a client is told by the settings."""

from dataclasses import dataclass, field
from datetime import timedelta

from embedq.model import Budget, EmbedderName, RetryPolicy
from embedq.policy.health import IsDead
from embedq.policy.texts import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """How a client treats what it is not told otherwise."""

    embedder: EmbedderName  # of collections that name none
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    strict: bool = False  # refuse to declare a collection by its first put
    limits: Limits = field(default_factory=Limits)
    budget: Budget | None = None  # of remote embedders: queries take from it too
    heartbeat: timedelta = timedelta(seconds=60)  # by which a worker counts as alive
    is_dead: IsDead | None = None  # what this host knows of its own processes
    query_timeout: timedelta = timedelta(seconds=2)  # after which words answer instead
    semantic_timeout: timedelta = timedelta(seconds=10)  # the caller wants no other answer, so a model may load
    cached_queries: int = 512
    max_answer_bytes: int = 32 << 20  # of texts and attributes, in a search or a page of records
