"""What a record's text is, and which records are refused."""

import json
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from embedq.errors import Invalid, TooLarge
from embedq.model import ContentHash, NewRecord, Patch

MAX_ID_BYTES = 512
MAX_BATCH = 1000
MAX_NAME_BYTES = 128
MAX_FILTER_NAMES = 64
MAX_DEPTH = 64  # of nested attributes


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes a writer must keep to."""

    text_bytes: int = 1 << 20
    attributes_bytes: int = 1 << 20


def hash_of(text: str) -> ContentHash:
    """Name a text by its content."""
    return ContentHash(sha256(text.encode()).digest())


def compose(text_from: Sequence[str] | None, text: str | None, attributes: Mapping[str, Any]) -> str:
    """Make the text that is embedded. Raise Invalid if there is nothing to embed."""
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
    """Write an attribute as words: a list is its items, anything else that is no string is its JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value)
    return json.dumps(value, ensure_ascii=False)


def check_name(name: str) -> None:
    """Refuse a collection name that cannot be carried through URLs and logs unharmed."""
    if not 1 <= len(_encoded(name, "the collection's name")) <= MAX_NAME_BYTES or _has_controls(name):
        raise Invalid(f"a collection's name has 1 to {MAX_NAME_BYTES} bytes and no control characters")


def refusal(problems: Mapping[int, str], total: int) -> Invalid:
    """Refuse a batch, all of it, and name every bad record by its position."""
    named = dict(sorted(problems.items()))
    if total == 1:
        return Invalid(f"the record is refused: {named[0]}", problems=named)
    first = "; ".join(f"[{position}] {what}" for position, what in list(named.items())[:5])
    return Invalid(f"{len(named)} of {total} records refused, so none is stored: {first}", problems=named)


def problems_of(records: Mapping[int, NewRecord], limits: Limits) -> dict[int, str]:
    """Say what is wrong with records, by their positions: each on its own, and an id that stands twice."""
    problems: dict[int, str] = {}
    seen: dict[str, int] = {}
    for position, record in records.items():
        try:
            check_record(record, limits)
            if record.id in seen:
                raise Invalid(f"the id stands at position {seen[record.id]} too: send each id once")  # noqa: TRY301 the loop gathers all problems
            seen[record.id] = position
        except (Invalid, TooLarge) as problem:
            problems[position] = str(problem)
    return problems


def patched(record: NewRecord, change: Patch, text_from: Sequence[str] | None, limits: Limits) -> NewRecord:
    """Merge a change into a record as it is stored; what makes its own text keeps the stored one if none is sent."""
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
    """Refuse a record that cannot be stored and read back as it is."""
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
        return  # most ids: nothing else to look at
    if not 1 <= len(_encoded(value, f"the {what}")) <= MAX_ID_BYTES:
        raise Invalid(f"the {what} must have 1 to {MAX_ID_BYTES} bytes")
    if _has_controls(value):
        raise Invalid(f"the {what} must not hold control characters")


def check_filter(names: Collection[str]) -> None:
    """Refuse a filter by more attributes than a database takes at once."""
    if len(names) > MAX_FILTER_NAMES:
        raise Invalid(f"filter: {len(names)} attribute names, at most {MAX_FILTER_NAMES}")


def check_answer(size: int, count: int, most: int | None) -> None:
    """Refuse to bring several records at once that are too much for one answer."""
    if most is not None and size > most and count > 1:
        raise TooLarge(
            f"what was asked for has more than {most} bytes of text and attributes: ask for less at once (`k`), "
            "or raise EMBEDQ_MAX_ANSWER_BYTES"
        )


def check_text(text: object, limits: Limits) -> None:
    """Refuse a text that is too long or cannot be stored unharmed."""
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
    """Gather all strings in a value: JSON writes a NUL like a backslash that is followed by u0000."""
    if isinstance(value, Mapping):
        return "".join(map(_strings, (*value.keys(), *value.values())))
    if isinstance(value, list):
        return "".join(map(_strings, value))
    return value if isinstance(value, str) else ""


def written(attributes: Mapping[str, Any]) -> str:
    """Write attributes as JSON, the way they are stored."""
    return json.dumps(dict(attributes), ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _encoded(value: str, what: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise Invalid(f"{what} is no valid Unicode (a lone surrogate at position {error.start})") from error


def _has_controls(value: str) -> bool:
    return not value.isprintable() and any(unicodedata.category(char) == "Cc" for char in value)


def _depth_exceeds(value: object, limit: int) -> bool:
    """Walk with a stack of our own: deep input must not exhaust Python's."""
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
