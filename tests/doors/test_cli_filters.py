"""Filters as they are typed."""

import pytest
import typer
from tests.doors.conftest import Shell

from embedq.cli.filters import read_conditions
from embedq.policy.filters import read_filter


def test_filters_are_read_both_ways() -> None:
    """A shell knows no types, so a number is also looked for as text; several of one attribute mean any of them."""
    written = ["year=1843", "name=Ada", "open=true", "tag=a", "tag=b", "eq=x=y", "lang!=de", "lang!=1"]

    assert read_conditions(written) == {
        "year": {"in": ["1843", 1843]},
        "name": {"in": ["Ada"]},
        "open": {"in": ["true", True]},
        "tag": {"in": ["a", "b"]},
        "eq": {"in": ["x=y"]},
        "lang": {"not_in": ["de", "1", 1]},
    }


def test_bounds_of_one_attribute_belong_together() -> None:
    """What reads as a number is one, and a date stays as it is written."""
    written = ["year>=1843", "year<1850", "at >2026-01-31T10:00:00+01:00", "name<=m"]

    assert read_conditions(written) == {
        "year": {"gte": 1843, "lt": 1850},
        "at": {"gt": "2026-01-31T10:00:00+01:00"},
        "name": {"lte": "m"},
    }


def test_json_is_the_grammar_itself() -> None:
    """It stands beside short forms, and both must hold."""
    whole = '{"$or": [{"year": {"gte": 2020}}, {"lang": "en"}]}'

    assert read_conditions([whole, "open=true"]) == {
        "$and": [{"open": {"in": ["true", True]}}, {"$or": [{"year": {"gte": 2020}}, {"lang": "en"}]}]
    }
    assert read_filter(read_conditions([whole])) is not None
    assert read_conditions(None) == {}


@pytest.mark.parametrize("wrong", ["year", "=x", "", '{"a": ', "{}x"])
def test_what_is_no_filter_is_refused_with_the_forms_there_are(wrong: str) -> None:
    """Before a database is opened."""
    with pytest.raises(typer.BadParameter, match=r"write attribute=value|is no JSON"):
        read_conditions(["lang=en", wrong])


def test_two_bounds_of_one_kind_are_refused() -> None:
    """One of them would be lost."""
    with pytest.raises(typer.BadParameter, match="another > for this attribute"):
        read_conditions(["a>1", "a>2"])


@pytest.fixture
def filled(shell: Shell) -> Shell:
    """Put some records."""
    records = [{"id": f"n{n}", "text": f"text {n}", "attributes": {"n": n, "odd": n % 2 == 1}} for n in range(5)]
    shell.run("put", "notes", shell.write("n.jsonl", *records))
    return shell


def test_a_list_and_a_search_take_the_same_filters(filled: Shell) -> None:
    """Short forms and JSON, in every command that takes them."""
    for where in (["-f", "n>=1", "-f", "n<4", "-f", "odd!=true"], ["-f", '{"n": {"in": [2, "2"]}}']):
        listed = filled.facts("list", "notes", *where)
        found = filled.facts("search", "notes", "text", "--mode", "keyword", *where)
        assert [one["id"] for one in listed["records"]] == [one["id"] for one in found["hits"]] == ["n2"]
    refused = filled.run("list", "notes", "-f", '{"n": {"about": 2}}', code=1)
    assert "filter: n: there is no operator 'about': write eq, ne, in, not_in, gt" in refused.stderr


def test_a_deletion_by_a_filter_must_be_meant(filled: Shell) -> None:
    """It is refused without --yes, beside ids, and without a condition; then it says how many are gone."""
    assert "look with `list`, then add --yes" in filled.run("delete", "notes", "-f", "n>2", code=2).stderr
    assert "name the records" in filled.run("delete", "notes", "n1", "-f", "n>2", "--yes", code=2).stderr
    assert "filter is empty" in filled.run("delete", "notes", "-f", "{}", "--yes", code=1).stderr
    assert len(filled.facts("list", "notes")["records"]) == 5

    assert "2 records deleted from notes" in filled.run("delete", "notes", "-f", "n>2", "--yes").stdout
    assert filled.facts("delete", "notes", "-f", "odd=true", "--yes", "--purge") == {"deleted": 2, "purged": True}
    assert [one["id"] for one in filled.facts("list", "notes")["records"]] == ["n0", "n2"]


def test_spaces_around_a_sign_mean_nothing() -> None:
    """`lang != en` would otherwise compare with " en", which is everything, also to a deletion."""
    assert read_conditions(["lang != en ", "year >= 1843"]) == {"lang": {"not_in": ["en"]}, "year": {"gte": 1843}}


@pytest.mark.parametrize("written", ["year==1843", "lang!==en", '{"a": {"gte": 1}, "a": {"lt": 2}}'])
def test_what_would_be_read_otherwise_than_meant_is_refused(written: str) -> None:
    """Another language's sign, and a name of which only the last would count."""
    with pytest.raises(typer.BadParameter):
        read_conditions([written])
