"""Parses callers' input into the types of `model`, or refuses it with advice."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from embedq.errors import Invalid, SettingsError, TooLarge
from embedq.model import EmbedderName, EmbeddingStatus, NewRecord, Patch, Priority, RecordId, RetryPolicy
from embedq.policy.languages import DEFAULT_LANGUAGE, LANGUAGES, PLAIN
from embedq.policy.naming import parse_embedder
from embedq.policy.texts import (
    MAX_BATCH,
    Limits,
    check_attributes,
    check_id,
    check_name,
    check_text,
    compose,
    problems_of,
    refusal,
)

MAX_TEXT_FIELDS = 64
MAX_PAGE = 1000
RECORD_FIELDS = frozenset({"id", "text", "attributes", "priority", "tenant"})
PATCH_FIELDS = RECORD_FIELDS - {"id"}
RETRY_FIELDS = frozenset({"base_seconds", "factor", "cap_seconds", "jitter", "max_attempts"})

RecordLike = Mapping[str, Any] | NewRecord
PriorityLike = Priority | int | str | None


def read_records(items: Sequence[RecordLike], limits: Limits) -> list[NewRecord]:
    """Parse and check a batch, or refuse all of it and name every bad record by its position."""
    if not items:
        raise Invalid("no records: send one record, or a list that is not empty")
    if len(items) > MAX_BATCH:
        raise TooLarge(f"{len(items)} records in one request: send at most {MAX_BATCH}")
    problems: dict[int, str] = {}
    records: dict[int, NewRecord] = {}
    for position, item in enumerate(items):
        try:
            records[position] = read_record(item)
        except Invalid as problem:
            problems[position] = str(problem)
    if problems := problems | problems_of(records, limits):
        raise refusal(problems, len(items))
    return list(records.values())


def check_texts(records: Sequence[NewRecord], text_from: Sequence[str] | None) -> None:
    """Refuse records that would have no text to embed."""
    if problems := _textless(dict(enumerate(records)), text_from):
        raise refusal(problems, len(records))


def with_textless(refused: Invalid, items: Sequence[RecordLike], text_from: Sequence[str] | None) -> Invalid:
    """Add the records without a text to a refused batch, so that one answer names all problems.

    Only for that message: the store decides, since it may know a newer `text_from`.
    """
    sound = {at: read_record(item) for at, item in enumerate(items) if at not in refused.problems}
    return refusal({**refused.problems, **_textless(sound, text_from)}, len(items))


def _textless(records: Mapping[int, NewRecord], text_from: Sequence[str] | None) -> dict[int, str]:
    problems: dict[int, str] = {}
    for position, record in records.items():
        try:
            compose(text_from, record.text, record.attributes or {})
        except Invalid as problem:
            problems[position] = str(problem)
    return problems


def read_record(item: RecordLike) -> NewRecord:
    """Parse one record; its values are checked with the batch."""
    if isinstance(item, NewRecord):
        return item
    if not isinstance(item, Mapping):
        raise Invalid(f"a record must be an object, not {type(item).__name__}")
    _only(item, RECORD_FIELDS, "a record")
    if "id" not in item:
        raise Invalid("the record has no `id`")
    return NewRecord(
        id=RecordId(item["id"]),
        text=item.get("text"),
        attributes=item.get("attributes"),
        priority=read_priority(item.get("priority")),
        tenant=item.get("tenant"),
    )


def read_patch(changes: Mapping[str, Any], limits: Limits) -> Patch:
    """Parse a partial change of a record."""
    if not isinstance(changes, Mapping):
        raise Invalid(f"a change must be an object, not {type(changes).__name__}")
    _only(changes, PATCH_FIELDS, "a change")
    text, attributes, tenant = changes.get("text"), changes.get("attributes"), changes.get("tenant")
    if text is not None:
        check_text(text, limits)
    if attributes is not None:
        check_attributes(attributes, limits)
    if tenant is not None:
        check_id(tenant, what="tenant")
    return Patch(text=text, attributes=attributes, priority=read_priority(changes.get("priority")), tenant=tenant)


def read_ids(ids: Sequence[str]) -> list[RecordId]:
    """Parse record ids, without duplicates."""
    if isinstance(ids, str):
        raise Invalid("ids must be a list of strings, not one string")
    for id_ in ids:
        check_id(id_)
    return [RecordId(id_) for id_ in dict.fromkeys(ids)]


def read_priority(value: object) -> Priority | None:
    """Parse `urgent`, `high`, `normal`, `low`, or 3 to 0."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return Priority[value.upper()]
        if isinstance(value, int) and not isinstance(value, bool):
            return Priority(value)
    except (KeyError, ValueError):
        pass
    raise Invalid(f"priority {repr(value)[:40]}: write urgent, high, normal or low (or 3, 2, 1, 0)")


def read_embedder(value: EmbedderName | str, canonical: Callable[[EmbedderName], EmbedderName]) -> EmbedderName:
    """Parse an embedder's name into its canonical form, or refuse one that there is not."""
    try:
        return canonical(parse_embedder(value) if isinstance(value, str) else value)
    except SettingsError as error:
        raise Invalid(str(error)) from error


def read_retry(value: Mapping[str, Any] | RetryPolicy | None, default: RetryPolicy) -> RetryPolicy:
    """Parse a retry policy; missing fields are the default's."""
    if value is None or isinstance(value, RetryPolicy):
        return value or default
    _only(value, RETRY_FIELDS, "a retry policy")
    base = _number(value, "base_seconds", default.base.total_seconds(), (0.0, 86_400.0))
    cap = _number(value, "cap_seconds", max(base, default.cap.total_seconds()), (base, 604_800.0))
    attempts = _number(value, "max_attempts", default.max_attempts, (1, 100))
    if attempts != int(attempts):
        raise Invalid(f"max_attempts={attempts!r}: it must be a whole number")
    return RetryPolicy(
        base=timedelta(seconds=base),
        factor=_number(value, "factor", default.factor, (1.0, 100.0)),
        cap=timedelta(seconds=cap),
        jitter=_number(value, "jitter", default.jitter, (0.0, 1.0)),
        max_attempts=int(attempts),
    )


def read_text_from(value: Sequence[str] | None) -> tuple[str, ...] | None:
    """Parse the names of the attributes that make a text."""
    if value is None:
        return None
    if isinstance(value, str) or not value or len(value) > MAX_TEXT_FIELDS:
        raise Invalid(f"text_from must be a list of 1 to {MAX_TEXT_FIELDS} attribute names")
    for name in value:
        check_id(name, what="attribute name")
    if len(set(value)) != len(value):
        raise Invalid("text_from names an attribute twice")
    return tuple(value)


def read_language(value: object) -> str:
    """Parse a collection's language; None: the default."""
    if value is None:
        return DEFAULT_LANGUAGE
    if not isinstance(value, str) or value not in LANGUAGES:
        raise Invalid(f"language {value!r}: write {PLAIN} for none, or one of {', '.join(sorted(LANGUAGES - {PLAIN}))}")
    return value


def read_status(value: str | None) -> EmbeddingStatus | None:
    """Parse an embedding status, if given."""
    if value is None:
        return None
    try:
        return EmbeddingStatus(value)
    except ValueError:
        raise Invalid(f"embedding_status {value!r}: write {', '.join(EmbeddingStatus)}") from None


def check_limit(limit: int) -> None:
    """Refuse a page size out of range."""
    if not 1 <= limit <= MAX_PAGE:
        raise Invalid(f"limit={limit}: it must be 1 to {MAX_PAGE}; go on with the cursor")


def check_collection(name: object) -> None:
    """Refuse an invalid collection name."""
    if not isinstance(name, str):
        raise Invalid(f"a collection's name must be a string, not {type(name).__name__}")
    check_name(name)


def check_new_collection(name: object) -> None:
    """Refuse a name that no new collection may have: clients resolve these in a URL's path."""
    check_collection(name)
    if name in {".", ".."}:
        raise Invalid(f"a collection cannot be named {name!r}, which no URL could reach: choose another name")


def _only(item: Mapping[str, Any], known: frozenset[str], what: str) -> None:
    if unknown := sorted(str(name) for name in item if name not in known):
        raise Invalid(f"{what} has no field {unknown[0][:64]!r}: it has {', '.join(sorted(known))}")


def _number(item: Mapping[str, Any], name: str, default: float, bounds: tuple[float, float]) -> float:
    value = item.get(name, default)
    low, high = bounds
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise Invalid(f"{name}={value!r}: it must be a number from {low:g} to {high:g}")
    return float(value)
