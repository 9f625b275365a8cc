"""What callers send."""

from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from embedq.model import EmbeddingStatus
from embedq.operator import DeadReason

MOST_AT_ONCE = 1000
# What an entry's text is made of, in this order.
TEXT_FIELDS = ("name", "description", "categories", "city")


def _storable(words: str) -> str:
    if "\0" in words:
        raise ValueError("PostgreSQL cannot store a NUL character")
    return words


def _or_nothing(words: str | None) -> str | None:
    return words or None


Words = Annotated[str, StringConstraints(strip_whitespace=True), AfterValidator(_storable)]
Name = Annotated[Words, Field(min_length=1, max_length=200)]
WordsOrNone = Annotated[Words | None, AfterValidator(_or_nothing)]  # a blank says as much as nothing


class NewEntry(BaseModel):
    """A business as it is entered."""

    model_config = ConfigDict(extra="forbid")

    name: Name
    description: WordsOrNone = None
    categories: list[Name] = Field(default_factory=list, max_length=50)
    city: WordsOrNone = None
    phone: WordsOrNone = None
    website: WordsOrNone = None


class Changes(BaseModel):
    """What changes of an entry; what is not sent stays, null takes away."""

    model_config = ConfigDict(extra="forbid")

    name: Name = ""
    description: WordsOrNone = None
    categories: list[Name] = Field(default_factory=list, max_length=50)
    city: WordsOrNone = None
    phone: WordsOrNone = None
    website: WordsOrNone = None

    @model_validator(mode="after")
    def _says_something(self) -> "Changes":
        if not self.model_fields_set:
            raise ValueError("nothing to change: send at least one field")
        return self

    @property
    def given(self) -> dict[str, object]:
        """What was sent, by the names of columns."""
        return self.model_dump(include=self.model_fields_set)

    @property
    def touches_text(self) -> bool:
        """Whether the text that is embedded may be another one now."""
        return not self.model_fields_set.isdisjoint(TEXT_FIELDS)


class Regenerate(BaseModel):
    """Which entries are embedded anew: those named, or all that stand so."""

    model_config = ConfigDict(extra="forbid")

    ids: list[UUID] | None = Field(default=None, min_length=1, max_length=MOST_AT_ONCE)
    embedding_status: EmbeddingStatus | None = None

    @model_validator(mode="after")
    def _one_way(self) -> "Regenerate":
        if (self.ids is None) == (self.embedding_status is None):
            raise ValueError("name the entries by ids, or by their embedding_status")
        return self


class Replay(BaseModel):
    """Which dead letters get another chance; without a reason, all."""

    model_config = ConfigDict(extra="forbid")

    reason: DeadReason | None = None
