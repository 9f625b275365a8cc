"""The input and output types of embedders, without logic."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from embedq.model import Space, Vector


class Purpose(StrEnum):
    """What texts are embedded for. Some models embed queries and documents differently."""

    DOCUMENT = "document"
    QUERY = "query"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderLimits:
    """What an embedder accepts per call and per minute. None: no limit is known."""

    inputs: int  # texts per call
    tokens_per_text: int | None = None
    tokens_per_call: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """One of a provider's rate limits, as it reported it. None: not reported."""

    limit: int | None = None  # per interval, whose length providers do not report
    remaining: int | None = None
    reset_after: timedelta | None = None  # until the full limit is available again


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldLimits:
    """The rate limits that a provider reported with its answer."""

    requests: Allowance | None = None
    tokens: Allowance | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """An embedder's answer to one call."""

    vectors: Vector  # one row per text, in their order
    tokens: int | None = None  # used by this call; None: not reported
    told: ToldLimits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TextVectors:
    """Vectors of texts, and the space that they are in."""

    space: Space  # `str(space)` is its name
    vectors: Vector  # float32, one row per text, in their order


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What calls of a provider take from a budget."""

    requests: int = 1
    tokens: int = 0


ONE_REQUEST = Spending()
