"""Request bodies, as OpenAPI shows them."""

from datetime import UTC, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictStr,
    model_validator,
)
from pydantic_core import PydanticCustomError

from embedq.client.intake import MAX_TEXT_FIELDS
from embedq.client.texts import MAX_TEXTS
from embedq.errors import Invalid
from embedq.model import Health
from embedq.operator import DeadReason
from embedq.policy.texts import MAX_BATCH, MAX_ID_BYTES, check_id

MAX_CODES = 64  # per heartbeat: every list of workers shows them
MAX_FIELDS = 64  # of a body: none has so many
NO_CONTROLS = r"^[^\u0000-\u001f\u007f-\u009f]+$"  # the rule for ids, as far as a pattern can express it
MAX_COUNT = 2**53  # the largest integer that every JSON parser keeps exact


def _checked(value: str) -> str:
    """Apply the rule for ids, so that the response names the field."""
    try:
        check_id(value)
    except Invalid as problem:
        raise PydanticCustomError("id", "{problem}", {"problem": str(problem)}) from problem
    return value


def _no_number(value: object) -> object:
    if isinstance(value, int | float):
        raise PydanticCustomError("moment", "write a moment as text, such as 2026-01-05T10:00:00Z")
    return value


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:  # its offset leads out of the calendar
        raise PydanticCustomError("moment", "write a moment of the years 1 to 9999, in UTC too") from None


def _no_bool(value: object) -> object:
    if isinstance(value, bool):
        raise PydanticCustomError("priority", "write urgent, high, normal or low (or 3, 2, 1, 0)")
    return value


def _few(value: object) -> object:
    """Refuse an object with many fields at once: each wrong one is an error of its own, and takes memory and time."""
    if isinstance(value, dict) and len(value) > MAX_FIELDS:
        facts = {"size": len(value), "most": MAX_FIELDS}
        raise PydanticCustomError("fields", "it has {size} fields, at most {most}", facts)
    return value


Id = Annotated[
    StrictStr,
    AfterValidator(_checked),
    Field(
        description=f"1 to {MAX_ID_BYTES} bytes of UTF-8 without control characters.",
        json_schema_extra={"minLength": 1, "maxLength": MAX_ID_BYTES, "pattern": NO_CONTROLS},
    ),
]
Priority = Annotated[
    Literal["urgent", "high", "normal", "low", 3, 2, 1, 0],
    BeforeValidator(_no_bool),  # true would pass as 1
    Field(description="Higher lanes go first."),
]
Attributes = Annotated[dict[str, Any], Field(description="What JSON can hold.", examples=[{"author": "Ada"}])]
Filter = Annotated[
    dict[str, Any],
    Field(
        description="Attribute: a value, a list of values, or operators (eq, ne, in, not_in, gt, gte, lt, lte, "
        "exists); $and, $or and $not join filters. `author.name` descends. A date compares moments.",
        examples=[{"author.name": ["Ada", "Grace"], "year": {"gte": 1843, "lt": 1850}, "$not": {"lang": "de"}}],
    ),
]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT, strict=True)]
Moment = Annotated[AwareDatetime, BeforeValidator(_no_number), AfterValidator(_in_utc)]


class Body(BaseModel):
    """A request body: exact types, and no field that is not declared."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    _bounded = model_validator(mode="before")(_few)


class NewRecord(Body):
    """A record to write."""

    id: Id
    text: str | None = Field(default=None, description="What is embedded, unless the collection has `text_from`.")
    attributes: Attributes | None = None
    priority: Priority | None = Field(default=None, description="The collection's, if it is left out.")
    tenant: Id | None = Field(default=None, description="Whose record this is; searches may ask for one tenant only.")


class NewRecords(Body):
    """A batch of records: all are written, or none."""

    records: list[NewRecord] = Field(min_length=1, max_length=MAX_BATCH)


class Change(Body):
    """A change of a record: attributes are merged, a null takes one away."""

    text: str | None = None
    attributes: Attributes | None = None
    priority: Priority | None = None
    tenant: Id | None = Field(default=None, description="Not a change: the tenant the record must belong to.")


class Retry(Body):
    """How long a job waits after a failure, and how often it may fail."""

    base_seconds: float | None = Field(default=None, ge=0, le=86_400)
    factor: float | None = Field(default=None, ge=1, le=100)
    cap_seconds: float | None = Field(default=None, ge=0, le=604_800)
    jitter: float | None = Field(default=None, ge=0, le=1)
    max_attempts: int | None = Field(default=None, ge=1, le=100)


class NewCollection(Body):
    """What a collection is declared to be. What is left out takes the settings' defaults."""

    text_from: list[str] | None = Field(
        default=None,
        max_length=MAX_TEXT_FIELDS,
        description="Attribute names: their values, joined in order, are the text. Without it a record brings `text`.",
        examples=[["title", "body"]],
    )
    embedder: str | None = Field(
        default=None, max_length=256, description="One of those that EMBEDQ_ALLOWED_EMBEDDERS allows."
    )
    priority: Priority | None = None
    retry: Retry | None = None
    language: str | None = Field(
        default=None,
        max_length=32,
        description="Whose words the texts are, for keyword search: english if it is left out, simple for none.",
        examples=["english"],
    )


class Search(Body):
    """What to look for."""

    query: str = Field(examples=["weaving"])
    k: int = Field(default=10, ge=1, le=1000, description="How many hits at most.")
    mode: Literal["auto", "semantic", "keyword", "hybrid"] = Field(
        default="auto", description="auto: hybrid, or keyword where no query vector can be had within 2 s."
    )
    filter: Filter = {}
    tenant: Id | None = None


class Texts(Body):
    """Texts to embed: one, or some. Without a collection or an embedder the default embeds them."""

    text: str | None = None
    texts: list[str] | None = Field(default=None, min_length=1, max_length=MAX_TEXTS, examples=[["weaving"]])
    collection: str | None = Field(default=None, description="Embed as its embedder does.")
    embedder: str | None = Field(
        default=None, max_length=256, description="One of those that EMBEDQ_ALLOWED_EMBEDDERS allows."
    )
    purpose: Literal["query", "document"] = Field(default="query", description="Some models embed the two differently.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.text is None) == (self.texts is None):
            raise PydanticCustomError("texts", "send `text` or `texts`, and one of them only")
        return self


class NewJob(Body):
    """A record to embed."""

    collection: StrictStr
    record_id: Id
    force: bool = Field(default=False, description="Embed it even if its vector is current.")
    priority: Priority | None = None
    tenant: Id | None = Field(default=None, description="The tenant the record must belong to.")


class NewWorker(Body):
    """A worker that runs elsewhere."""

    id: Id | None = Field(default=None, description="Without one, it gets one.")
    host: str = Field(default="", max_length=255)
    pid: int = Field(default=0, ge=0, le=2**31 - 1)
    version: str = Field(default="", max_length=64)
    embedder: str = Field(default="", max_length=256)


class Heartbeat(BaseModel):
    """The health of a worker."""

    model_config = ConfigDict(extra="forbid")

    _bounded = model_validator(mode="before")(_few)

    health: Health = Health.HEALTHY
    consecutive_failures: Count = 0
    succeeded: Count = 0
    failed: Count = 0
    last_success_at: Moment | None = None
    error_patterns: Annotated[dict[Annotated[str, Field(max_length=256)], Count], BeforeValidator(_few)] = Field(
        default={}, max_length=MAX_CODES, description="Error code: how often."
    )
    halted: list[Annotated[str, Field(max_length=256)]] = Field(
        default=[], max_length=MAX_CODES, description="Embedders that wait for a person."
    )


class Replay(Body):
    """Which dead letters are meant: all of them, if nothing is said."""

    collection: str | None = None
    reason: Annotated[DeadReason | None, Field(strict=False)] = None
    tenant: Id | None = None
