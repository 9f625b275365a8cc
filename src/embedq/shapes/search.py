"""The answer to a search."""

from typing import Any, Self

from pydantic import BaseModel, Field

from embedq import model
from embedq.embedding import TextVectors
from embedq.model import SearchMode


class Hit(BaseModel):
    """A record that was found."""

    id: str
    score: float = Field(description="Semantic: the cosine.")
    text: str
    attributes: dict[str, Any]
    stale: bool = Field(description="The vector that found it belongs to an earlier text, or may.")

    @classmethod
    def of(cls, hit: model.Hit) -> Self:
        """Show a hit."""
        return cls(
            id=hit.id,
            score=float(hit.score),
            text=hit.text,
            attributes=dict(hit.attributes),
            stale=bool(hit.stale),
        )


class Freshness(BaseModel):
    """How far the collection's vectors are behind."""

    coverage: float = Field(description="1.0: every record is known to have a vector of its current text.")
    pending: int
    oldest_pending_seconds: float | None
    trouble: str | None = Field(
        description="Why it is not known what the current texts are: the attached table cannot be followed."
    )

    @classmethod
    def of(cls, freshness: model.Freshness) -> Self:
        """Show how fresh a collection is."""
        oldest = freshness.oldest_pending
        return cls(
            coverage=freshness.coverage,
            pending=freshness.pending,
            oldest_pending_seconds=None if oldest is None else oldest.total_seconds(),
            trouble=freshness.trouble,
        )


class Found(BaseModel):
    """Hits, how they were found, and how fresh they are."""

    hits: list[Hit]
    mode_used: SearchMode
    reason: str | None = Field(description="Why it is not the mode that was asked for.")
    freshness: Freshness

    @classmethod
    def of(cls, answer: model.Answer) -> Self:
        """Show the answer to a search."""
        return cls(
            hits=[Hit.of(hit) for hit in answer.hits],
            mode_used=answer.mode_used,
            reason=answer.reason,
            freshness=Freshness.of(answer.freshness),
        )


class Vectors(BaseModel):
    """Vectors of texts, and the space that they are in."""

    space: str = Field(examples=["local:all-MiniLM-L6-v2@384"])
    vectors: list[list[float]] = Field(description="One per text, in their order.")

    @classmethod
    def of(cls, embedded: TextVectors) -> Self:
        """Show the vectors of texts."""
        return cls(space=str(embedded.space), vectors=embedded.vectors.tolist())
