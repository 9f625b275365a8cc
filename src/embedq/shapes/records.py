"""Records and what their writers get back."""

from typing import Annotated, Any, Self

import numpy as np
from pydantic import BaseModel, BeforeValidator, Field

from embedq import model
from embedq.model import EmbeddingStatus, Reason
from embedq.shapes.fields import Moment


def _listed(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else value


class Receipt(BaseModel):
    """What a writer gets back for one record."""

    id: str
    embedding_status: EmbeddingStatus
    job_id: str | None = Field(description="null: there is no job, and nothing to do.")

    @classmethod
    def of(cls, receipt: model.Receipt) -> Self:
        """Show a receipt."""
        return cls(id=receipt.id, embedding_status=receipt.embedding_status, job_id=receipt.job_id)


class Receipts(BaseModel):
    """One receipt per record, in the order they were sent."""

    records: list[Receipt]


class Deleted(BaseModel):
    """A record that is gone from search."""

    id: str
    deleted: bool = True
    purged: bool = Field(description="Its text and vector are gone for good.")


class DeletedMany(BaseModel):
    """Records that are gone from search, and ids that did not exist."""

    deleted: list[str]
    absent: list[str]
    purged: bool = Field(description="Their texts and vectors are gone for good.")


class Exported(BaseModel):
    """What was written to a file."""

    collection: str
    records: int
    file: str


class Written(BaseModel):
    """What became of the records of a file."""

    records: int
    queued: int = Field(description="They wait for a vector, whether this put queued them or an earlier one.")
    unchanged: int
    workers: int = Field(description="Workers that are alive to embed them.")


class Put(Written):
    """What became of the lines of a file."""

    rejected: int = Field(description="Bad lines that were left out.")
    rejects: str | None = Field(description="The file that keeps them.")


class Replaced(Written):
    """What became of a collection that a file replaced."""

    deleted: int
    drained: bool = Field(description="Leased jobs were finished before.")


class DeletedBy(BaseModel):
    """What a deletion by a filter did."""

    deleted: int = Field(description="How many records.")
    purged: bool


class Record(BaseModel):
    """A record as readers see it."""

    id: str
    collection: str
    text: str
    attributes: dict[str, Any]
    tenant: str | None
    embedding_status: EmbeddingStatus
    reason: Reason | None = Field(description="Why there is no vector, if its text was given up on.")
    truncated: bool = Field(description="The vector stands for the beginning of the text only.")
    job_id: str | None
    created_at: Moment
    updated_at: Moment

    @classmethod
    def of(cls, record: model.Record) -> Self:
        """Show a record with as much of it as this shape has."""
        return cls(**{name: getattr(record, name) for name in cls.model_fields})


class RecordWithVector(Record):
    """A record and its vector."""

    vector: Annotated[list[float] | None, BeforeValidator(_listed)] = Field(
        default=None, description="Only with `?include=vector`."
    )


class RecordPage(BaseModel):
    """Some records, and where the list goes on."""

    records: list[Record]
    next_cursor: str | None

    @classmethod
    def of(cls, page: model.Page[model.Record]) -> Self:
        """Show a page of records."""
        return cls(records=[Record.of(record) for record in page.items], next_cursor=page.next_cursor)
