"""A client's settings."""

from dataclasses import dataclass, field
from datetime import timedelta

from embedq.model import Budget, EmbedderName, RetryPolicy
from embedq.policy.health import IsDead
from embedq.policy.texts import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """A client's defaults and limits."""

    embedder: EmbedderName  # of collections that name none
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    strict: bool = False  # do not declare a collection on its first put
    limits: Limits = field(default_factory=Limits)
    budget: Budget | None = None  # of remote embedders: queries take from it too
    heartbeat: timedelta = timedelta(seconds=60)  # to judge whether a worker is alive
    is_dead: IsDead | None = None  # what this host knows of its own processes
    query_timeout: timedelta = timedelta(seconds=2)  # then the search falls back to words
    semantic_timeout: timedelta = timedelta(seconds=10)  # there is no fallback, so a model may take time to load
    attempt_deadline: timedelta = timedelta(seconds=120)  # of one call of an embedder
    cached_queries: int = 512
    max_answer_bytes: int = 32 << 20  # of texts and attributes, in a search or a page of records
