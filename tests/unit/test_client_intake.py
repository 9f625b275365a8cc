"""What callers hand in: read as meant, or refused with what to do."""

from datetime import timedelta
from typing import Any

import pytest

from embedq.client.intake import (
    read_ids,
    read_patch,
    read_priority,
    read_records,
    read_retry,
    read_text_from,
    with_textless,
)
from embedq.errors import Invalid, TooLarge
from embedq.model import NewRecord, Priority, RecordId, RetryPolicy
from embedq.policy.texts import Limits

LIMITS = Limits(text_bytes=100)


def test_records_are_read_as_mappings_or_nouns() -> None:
    """Both ways of writing a record mean the same."""
    noun = NewRecord(id=RecordId("a"), text="x", priority=Priority.HIGH)

    assert read_records([{"id": "a", "text": "x", "priority": "high"}], LIMITS) == [noun]
    assert read_records([noun], LIMITS) == [noun]


def test_every_bad_record_is_named_by_its_position() -> None:
    """Wrong shapes and wrong values are told together, so that one look mends all."""
    batch: list[Any] = [
        {"id": "ok", "text": "fine"},
        {"text": "no id"},
        "not an object",
        {"id": "b", "text": "x", "colour": "red"},
        {"id": 5, "text": "x"},
        {"id": "c", "text": "x", "priority": "soon"},
        {"id": "d", "text": "x" * 101},
    ]

    with pytest.raises(Invalid) as refusal:
        read_records(batch, LIMITS)

    assert set(refusal.value.problems) == {1, 2, 3, 4, 5, 6}
    assert "none is stored" in str(refusal.value)
    assert "'colour'" in refusal.value.problems[3]


def test_duplicates_and_oversize_are_refused() -> None:
    """An id stands once in a batch; texts and batches have limits."""
    with pytest.raises(Invalid) as refusal:
        read_records([{"id": "a", "text": "x"}, {"id": "a", "text": "y"}, {"id": "b", "text": "x" * 101}], LIMITS)
    assert set(refusal.value.problems) == {1, 2}

    with pytest.raises(TooLarge):
        read_records([{"id": str(n), "text": "x"} for n in range(1001)], LIMITS)
    with pytest.raises(Invalid):
        read_records([], LIMITS)


@pytest.mark.parametrize(
    ("given", "read"),
    [("urgent", 3), ("HIGH", 2), (1, 1), (0, 0), (Priority.LOW, 0), (None, None)],
)
def test_a_priority_is_a_name_or_a_number(given: object, read: int | None) -> None:
    """Low is zero, and zero is not nothing."""
    assert read_priority(given) == read


@pytest.mark.parametrize("given", ["soon", 4, -1, 1.5, True, [], ""])
def test_a_wrong_priority_is_refused(given: object) -> None:
    """The refusal says what can be written."""
    with pytest.raises(Invalid, match="urgent, high, normal or low"):
        read_priority(given)


def test_a_retry_policy_keeps_defaults_for_what_is_not_said() -> None:
    """Only what is named changes; bounds are checked."""
    default = RetryPolicy(max_attempts=7)

    read = read_retry({"base_seconds": 2, "jitter": 0}, default)

    assert read == RetryPolicy(base=timedelta(seconds=2), jitter=0.0, max_attempts=7)
    assert read_retry(None, default) == default
    for wrong in ({"max_attempts": 0}, {"max_attempts": 1.5}, {"factor": "x"}, {"cap_seconds": 0.5}, {"pace": 1}):
        with pytest.raises(Invalid):
            read_retry(wrong, default)


@pytest.mark.parametrize("wrong", ["title", [], ["a", "a"], [""], ["x"] * 65, [1]])
def test_a_wrong_text_from_is_refused(wrong: Any) -> None:  # noqa: ANN401 each is wrong in its own way
    """It is a list of attribute names, each once."""
    with pytest.raises(Invalid):
        read_text_from(wrong)


def test_a_change_has_known_fields_and_bounds() -> None:
    """A typing slip in a change must not pass for no change."""
    assert read_patch({"attributes": {"a": None}}, LIMITS).attributes == {"a": None}
    for wrong in ({"id": "x"}, {"txt": "x"}, {"text": 5}, {"attributes": []}, {"tenant": ""}):
        with pytest.raises(Invalid):
            read_patch(wrong, LIMITS)


def test_ids_are_a_list_and_each_counts_once() -> None:
    """One string is no list of its letters."""
    assert read_ids(["b", "a", "b"]) == ["b", "a"]
    with pytest.raises(Invalid):
        read_ids("abc")


def test_what_has_no_text_is_named_with_the_rest() -> None:
    """A batch that is refused anyway is judged whole, by the collection's own way to make texts."""
    batch: list[Any] = [{"id": "a", "attributes": {"title": "T"}}, {"id": "b"}, {"text": "no id"}]
    with pytest.raises(Invalid) as refusal:
        read_records(batch, LIMITS)

    told = with_textless(refusal.value, batch, ("title",))

    assert set(told.problems) == {1, 2}
    assert "2 of 3 records refused, so none is stored: [1] nothing to embed" in str(told)
