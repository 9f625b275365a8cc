"""Prepare records for writing: make their texts, and report every invalid record."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from embedq.errors import Invalid, TooLarge
from embedq.model import ContentHash, NewRecord
from embedq.policy.texts import Limits, check_text, compose, hash_of, refusal, written

NONE = "{}"  # no attributes


class Home(Protocol):
    """What a collection sets for its records."""

    @property
    def text_from(self) -> tuple[str, ...] | None:
        """The attributes that a text is made from."""
        ...

    @property
    def priority(self) -> int:
        """The lane of records that set none."""
        ...


class Row(NamedTuple):
    """A record ready to be written."""

    place: int  # in the request, from 1
    id: str
    text: str
    hash: ContentHash
    attributes: str  # JSON
    tenant: str | None
    priority: int


def compose_all(home: Home, records: Sequence[NewRecord], limits: Limits) -> list[Row]:
    """Make the texts of checked records; report every record without a text and every repeated id."""
    rows, problems = [], {}
    seen: set[str] = set()
    for position, record in enumerate(records):
        attributes: Mapping[str, Any] = record.attributes or {}
        try:
            if record.id in seen:
                raise Invalid("the id stands here twice: send each id once")  # noqa: TRY301 all problems are collected
            seen.add(record.id)
            text = compose(home.text_from, record.text, attributes)
            if home.text_from is not None:
                check_text(text, limits)  # a composed text has not been checked yet
        except (Invalid, TooLarge) as problem:
            problems[position] = str(problem)
            continue
        priority = home.priority if record.priority is None else int(record.priority)
        noted = written(attributes) if attributes else NONE
        rows.append(Row(position + 1, record.id, text, hash_of(text), noted, record.tenant, priority))
    if problems:
        raise refusal(problems, len(records))
    return rows
