"""What is asked of an embedder and what it answers: nouns that hold facts and decide nothing."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from embedq.model import Vector


class Purpose(StrEnum):
    """What texts are embedded for. Some models embed a query in another way than a document."""

    DOCUMENT = "document"
    QUERY = "query"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderLimits:
    """What an embedder takes at once and per minute. None: no limit is known."""

    inputs: int  # texts per call
    tokens_per_text: int | None = None
    tokens_per_call: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What a provider said of one of its rate limits. None: it did not say."""

    limit: int | None = None  # per interval, whose length providers do not tell
    remaining: int | None = None
    reset_after: timedelta | None = None  # until the whole limit is there again


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldLimits:
    """The rate limits that came with a provider's answer."""

    requests: Allowance | None = None
    tokens: Allowance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """An embedder's answer to one call."""

    vectors: Vector  # one row per text, in their order
    tokens: int | None = None  # used by this call; None: the provider does not say
    told: ToldLimits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What calls of a provider take of a budget."""

    requests: int = 1
    tokens: int = 0


ONE_REQUEST = Spending()
