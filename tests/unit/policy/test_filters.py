"""The grammar of filters: what is understood, what is refused, and what it means."""

from datetime import datetime
from typing import Any

import pytest

from embedq.conditions import AllOf, AnyOf, Exists, Filter, Not, OneOf, Order, Within
from embedq.errors import Invalid
from embedq.policy.filters import check_filterable, paths, read_filter
from embedq.policy.instants import microseconds
from embedq.policy.matching import matches
from embedq.testing.stores.filter_cases import ATTRIBUTES, CASES


@pytest.mark.parametrize(("wanted", "allowed"), CASES, ids=[str(wanted) for wanted, _ in CASES])
def test_a_filter_means_what_the_table_says(wanted: dict[str, Any], allowed: set[str]) -> None:
    """The rule that stores are compared with agrees with the table that people read."""
    asked = read_filter(wanted)
    assert asked is not None

    assert {name for name, attributes in ATTRIBUTES.items() if matches(asked, attributes)} == allowed


@pytest.mark.parametrize(
    ("wanted", "tree"),
    [
        ({"a": 1}, OneOf(("a",), (1,))),
        ({"a.b": [1, None]}, OneOf(("a", "b"), (1, None))),
        ({"a\\.b.c": "x"}, OneOf(("a.b", "c"), ("x",))),
        ({"a": {"ne": 1}}, Not(OneOf(("a",), (1,)))),
        ({"a": {"gte": 1, "lt": 2.5}}, Within(("a",), ((Order.GTE, 1), (Order.LT, 2.5)))),
        ({"a": 1, "b": {"exists": True}}, AllOf((OneOf(("a",), (1,)), Exists(("b",))))),
        ({"$or": [{"a": 1}, {"a": 2}]}, AnyOf((OneOf(("a",), (1,)), OneOf(("a",), (2,))))),
        ({"a": [2**63 - 1, -(2**63)]}, OneOf(("a",), (2**63 - 1, -(2**63)))),
        ({}, None),
        (None, None),
    ],
)
def test_a_filter_is_read_into_a_tree(wanted: Any, tree: Filter | None) -> None:  # noqa: ANN401 as callers write it
    """Every way to write a condition is one of six kinds."""
    assert read_filter(wanted) == tree


def nested(depth: int) -> dict[str, Any]:
    """Nest a filter."""
    return {"a": 1} if depth == 1 else {"$not": nested(depth - 1)}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([1], "filter must be an object of attribute: value, not list"),
        ({"a": {"b": 1}}, "filter: a: there is no operator 'b': write eq, ne, in, not_in, gt, gte, lt, lte, exists"),
        ({"a": {}}, "filter: a is an empty object: write eq, ne"),
        ({"a": [[1]]}, "filter: a: write a string, a number, true, false or null, or a list of these"),
        ({"a": {"eq": {"b": 1}}}, "filter: a.eq: write a string"),
        ({"a": {"in": 1}}, "filter: a.in must be a list of values"),
        ({"a": {"gt": True}}, "filter: a.gt: write a number, a text or a date"),
        ({"a": {"gt": None}}, "filter: a.gt: write a number, a text or a date"),
        ({"a": {"gt": 1, "lt": "x"}}, "filter: a: compare with one kind of value, not with numbers and texts"),
        ({"a": {"gt": "2026-01-31", "lt": "x"}}, "not with dates and texts"),
        ({"a": {"exists": 1}}, "filter: a.exists: write true or false"),
        ({"a": {"lt": datetime.fromisoformat("0001-01-01T00:00+01:00")}}, "filter: a.lt: this moment is none"),
        ({"": 1}, "the attribute name '' is empty"),
        ({"a..b": 1}, "the attribute name 'a..b' is empty, or has nothing on one side of a dot"),
        ({'a"b': 1}, "has characters that cannot be filtered by"),
        ({1: 1}, "an attribute's name must be a string, not int"),
        ({".".join("abcdefghi"): 1}, "descends 9 names, at most 8"),
        ({"$nor": []}, "filter: $nor: write $and, $or, $not, or an attribute's name"),
        ({"$or": []}, "filter: $or must be a list of filters, at least one"),
        ({"$or": [{"a": 1}, {}]}, "filter: $or[1] is empty"),
        ({"$or": [{"a": 1}, {"b": {"c": 1}}]}, "filter: $or[1].b: there is no operator 'c'"),
        ({"$not": 1}, "filter: $not must be an object"),
        (nested(9), "filter: nested deeper than 8"),
        ({"a": list(range(1001))}, "filter: a: 1001 values, at most 1000"),
        ({f"a{n}": n for n in range(65)}, "filter: more than 64 conditions"),
        ({"$or": [{"a": n} for n in range(65)]}, "filter: more than 64 conditions"),
        ({"a": ["x" * 1000] * 300}, "filter: more than 262144 bytes of names and texts"),
        ({"a": 2**63}, "filter: a: numbers must fit into 64 bits"),
        ({"a": {"gt": 10**400}}, "filter: a.gt: numbers must fit into 64 bits"),
        ({"a": float("nan")}, "numbers must fit into 64 bits"),
        ({"a": [1, float("inf")]}, "numbers must fit into 64 bits"),
        ({"a": "\ud800"}, "filter: a: no valid Unicode"),
        ({"\ud800": 1}, "has characters that cannot be filtered by"),
        ({"a": "x\0"}, "filter: a: no text holds NUL characters"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_filter_is_refused_with_its_place(wrong: Any, said: str) -> None:  # noqa: ANN401 each is wrong in its own way
    """One sentence says where the fault is, and what is understood there."""
    with pytest.raises(Invalid) as refused:
        read_filter(wrong)

    assert said in str(refused.value)


def test_as_much_as_is_allowed_is_read() -> None:
    """The bounds themselves are within bounds."""
    for most in (nested(8), {"a": list(range(1000))}, {f"a{n}": n for n in range(64)}, {".".join("abcdefgh"): 1}):
        assert read_filter(most) is not None


def test_a_table_is_filtered_by_the_first_names_of_paths() -> None:
    """What a column holds is its own affair; wherever in the filter it is named."""
    wanted = read_filter({"$not": {"$or": [{"a.b": 1}, {"c": {"gt": 1}}]}, "d": {"exists": True}})

    assert list(paths(wanted)) == [("a", "b"), ("c",), ("d",)]
    check_filterable(wanted, ["a", "c", "d"], "docs")
    with pytest.raises(Invalid, match="'docs' cannot be filtered by 'a': its attributes are c, d"):
        check_filterable(wanted, ["c", "d"], "docs")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00", 0),
        ("1970-01-01 00:00:01.5Z", 1_500_000),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T19:00-0500", 0),
        ("1970-01-01T00:00:00.123456789", 123_456),
        ("0001-01-01T00:00+14:59", -62_135_596_800_000_000 - 53_940_000_000),
        ("1970-1-1", None),
        ("1970-01-01T", None),
        ("1970-01-01T00:00:60", None),
        ("1970-01-01T00:00+15:00", None),
        ("0000-01-01", None),
        ("١٩٧٠-01-01", None),
        ("1970-01-01\n", None),
        ("19700101", None),
        ("1970-W01-1", None),
    ],
)
def test_a_moment_is_what_iso_8601_writes_in_full(text: str, moment: int | None) -> None:
    """Other texts are texts, in every database."""
    assert microseconds(text) == moment
