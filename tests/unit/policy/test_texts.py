"""How a change is merged into a record, and how a batch is refused."""

from typing import Any

import pytest

from embedq.errors import Invalid
from embedq.model import NewRecord, Patch, Priority, RecordId
from embedq.policy.texts import Limits, patched, problems_of, refusal

LIMITS = Limits(text_bytes=10, attributes_bytes=40)
STORED = NewRecord(id=RecordId("a"), text="old", attributes={"kind": "call", "n": 1}, tenant="t")


@pytest.mark.parametrize(
    ("change", "text_from", "text", "attributes"),
    [
        ({}, None, "old", {"kind": "call", "n": 1}),
        ({"text": "new"}, None, "new", {"kind": "call", "n": 1}),
        ({"attributes": {"n": 2}}, None, "old", {"kind": "call", "n": 2}),
        ({"attributes": {"n": None, "m": 3}}, None, "old", {"kind": "call", "m": 3}),
        ({"attributes": {"n": 2}}, ("kind",), None, {"kind": "call", "n": 2}),
        ({"text": "new"}, ("kind",), "new", {"kind": "call", "n": 1}),
    ],
)
def test_a_change_is_merged(
    change: dict[str, Any], text_from: tuple[str, ...] | None, text: str | None, attributes: dict[str, Any]
) -> None:
    """A null takes an attribute away; a text that is made from attributes is not carried over."""
    made = patched(STORED, Patch(**change, priority=Priority.HIGH), text_from, LIMITS)

    assert made == NewRecord(RecordId("a"), text, attributes, Priority.HIGH, "t")


def test_what_a_change_makes_is_bounded_as_a_record_is() -> None:
    """Two sound halves may be too much together."""
    with pytest.raises(Invalid, match="the record is refused: `attributes` have") as refused:
        patched(STORED, Patch(attributes={"more": "x" * 20}), None, LIMITS)

    assert set(refused.value.problems) == {0}


def test_a_batch_is_refused_with_every_bad_record() -> None:
    """The first five in words, all of them by their positions."""
    records = {n: NewRecord(id=RecordId("same" if n else ""), text="x") for n in range(8)}

    refused = refusal(problems_of(records, LIMITS), len(records))

    assert set(refused.problems) == {0, 2, 3, 4, 5, 6, 7}
    assert str(refused).startswith(
        "7 of 8 records refused, so none is stored: [0] the id must have 1 to 512 bytes; [2] "
    )
    assert "[7]" not in str(refused)
