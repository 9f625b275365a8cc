"""Composes a record's text, and checks records."""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from embedq.errors import Invalid, TooLarge
from embedq.model import ContentHash, NewRecord, Patch

MAX_ID_BYTES = 512
MAX_BATCH = 1000
MAX_NAME_BYTES = 128
MAX_DEPTH = 64  # of nested attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Size limits of records."""

    text_bytes: int = 1 << 20
    attributes_bytes: int = 1 << 20


def hash_of(text: str) -> ContentHash:
    """Hash a text."""
    return ContentHash(sha256(text.encode()).digest())


def compose(text_from: Sequence[str] | None, text: str | None, attributes: Mapping[str, Any]) -> str:
    """Compose the text to embed. Raise Invalid if it is empty."""
    if text_from is None:
        made = text
    elif text is not None:
        raise Invalid(f"this collection makes its text from {', '.join(text_from)}: send attributes, not text")
    else:
        made = "\n".join(_plain(attributes[name]) for name in text_from if attributes.get(name) not in (None, "", []))
    if made is None or not made.strip():
        source = "`text`" if text_from is None else f"the attributes {', '.join(text_from)}"
        raise Invalid(f"nothing to embed: {source} must hold a text that is not empty")
    return made


def _plain(value: object) -> str:
    """Write an attribute as words: a list as its items, any other non-string as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    return json.dumps(value, ensure_ascii=False)


def check_name(name: str) -> None:
    """Refuse a collection name that is not safe in URLs and logs."""
    if not 1 <= len(_encoded(name, "the collection's name")) <= MAX_NAME_BYTES or _has_controls(name):
        raise Invalid(f"a collection's name has 1 to {MAX_NAME_BYTES} bytes and no control characters")


def refusal(problems: Mapping[int, str], total: int) -> Invalid:
    """Build the error for a whole batch, which names every bad record by its position."""
    named = dict(sorted(problems.items()))
    if total == 1:
        return Invalid(f"the record is refused: {named[0]}", problems=named)
    first = "; ".join(f"[{position}] {what}" for position, what in list(named.items())[:5])
    return Invalid(f"{len(named)} of {total} records refused, so none is stored: {first}", problems=named)


def problems_of(records: Mapping[int, NewRecord], limits: Limits) -> dict[int, str]:
    """List the problems of records by position, including duplicate ids."""
    problems: dict[int, str] = {}
    seen: set[str] = set()
    for position, record in records.items():
        try:
            check_record(record, limits)
            if record.id in seen:
                raise Invalid(f"the id {record.id!r} came before in this batch: send each id once")  # noqa: TRY301 the loop collects all problems
            seen.add(record.id)
        except (Invalid, TooLarge) as problem:
            problems[position] = str(problem)
    return problems


def patched(record: NewRecord, change: Patch, text_from: Sequence[str] | None, limits: Limits) -> NewRecord:
    """Merge a change into a stored record; a record with its own text keeps it if none is sent."""
    merged = {**(record.attributes or {}), **(change.attributes or {})}
    text = record.text if change.text is None and text_from is None else change.text
    made = record._replace(
        text=text,
        attributes={name: value for name, value in merged.items() if value is not None},
        priority=change.priority,
    )
    if problems := problems_of({0: made}, limits):
        raise refusal(problems, 1)
    return made


def check_record(record: NewRecord, limits: Limits) -> None:
    """Refuse a record that cannot be stored and read back unchanged."""
    check_id(record.id)
    if record.text is not None:
        check_text(record.text, limits)
    if record.attributes is not None:
        check_attributes(record.attributes, limits)
    if record.tenant is not None:
        check_id(record.tenant, what="tenant")


def check_id(value: object, *, what: str = "id") -> None:
    """Refuse an id that is not 1 to 512 bytes of UTF-8 without control characters."""
    if not isinstance(value, str):
        raise Invalid(f"the {what} must be a string, not {type(value).__name__}")
    if value.isascii() and value.isprintable() and 1 <= len(value) <= MAX_ID_BYTES:
        return  # most ids need no further check
    if not 1 <= len(_encoded(value, f"the {what}")) <= MAX_ID_BYTES:
        raise Invalid(f"the {what} must have 1 to {MAX_ID_BYTES} bytes")
    if _has_controls(value):
        raise Invalid(f"the {what} must not hold control characters")


def check_answer(size: int, count: int, most: int | None) -> None:
    """Refuse several records that are too large for one answer."""
    if most is not None and size > most and count > 1:
        raise TooLarge(
            f"what was asked for has more than {most} bytes of text and attributes: ask for less at once (`k`), "
            "or raise EMBEDQ_MAX_ANSWER_BYTES"
        )


def check_text(text: object, limits: Limits) -> None:
    """Refuse a text that is too long or cannot be stored unchanged."""
    if not isinstance(text, str):
        raise Invalid(f"`text` must be a string, not {type(text).__name__}")
    size = len(text) if text.isascii() else len(_encoded(text, "`text`"))
    if size > limits.text_bytes:
        raise TooLarge(
            f"`text` has {size} bytes, the limit is {limits.text_bytes}: split it, or raise EMBEDQ_MAX_TEXT_BYTES"
        )
    if "\0" in text:
        raise Invalid("`text` must not hold NUL characters")


def check_attributes(attributes: object, limits: Limits) -> None:
    """Refuse attributes that are not a JSON object of bounded size and depth."""
    if attributes == {}:
        return
    if not isinstance(attributes, Mapping):
        raise Invalid(f"`attributes` must be an object, not {type(attributes).__name__}")
    if _depth_exceeds(attributes, MAX_DEPTH):
        raise Invalid(f"`attributes` are nested deeper than {MAX_DEPTH}")
    try:
        noted = written(attributes)
        size = len(_encoded(noted, "`attributes`"))
    except (TypeError, ValueError) as error:
        raise Invalid(f"`attributes` must be JSON: {error}") from error
    if size > limits.attributes_bytes:
        raise TooLarge(f"`attributes` have {size} bytes, the limit is {limits.attributes_bytes}")
    if "\\u0000" in noted and "\0" in _strings(attributes):
        raise Invalid("`attributes` must not hold NUL characters")


def _strings(value: object) -> str:
    """Join all strings in a value: in JSON an escaped NUL looks like a backslash followed by u0000."""
    if isinstance(value, Mapping):
        return "".join(map(_strings, (*value.keys(), *value.values())))
    if isinstance(value, list):
        return "".join(map(_strings, value))
    return value if isinstance(value, str) else ""


def written(attributes: Mapping[str, Any]) -> str:
    """Serialise attributes as they are stored."""
    return json.dumps(dict(attributes), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _encoded(value: str, what: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"{what} is no valid Unicode (a lone surrogate at position {error.start})") from error


def _has_controls(value: str) -> bool:
    return not value.isprintable() and any(unicodedata.category(char) == "Cc" for char in value)


def _depth_exceeds(value: object, limit: int) -> bool:
    """Walk without recursion: deep input must not exhaust Python's stack."""
    stack = [(value, 1)]
    while stack:
        item, depth = stack.pop()
        if depth > limit:
            return True
        if isinstance(item, Mapping):
            stack.extend((child, depth + 1) for child in item.values())
        elif isinstance(item, list):
            stack.extend((child, depth + 1) for child in item)
    return False
