"""Files of records: what is read, and which line is named."""

import io
from pathlib import Path

import pytest

from embedq.cli.files import Layout, Line, at_lines, batches, layout_of, lines, opened
from embedq.cli.importing import read_filter
from embedq.errors import Invalid


def read(content: str | bytes, layout: Layout | None = None) -> list[Line]:
    raw = content if isinstance(content, bytes) else content.encode()
    return list(lines(io.BytesIO(raw), layout or Layout()))


def test_json_lines_keep_their_numbers() -> None:
    """Blank lines are skipped and still counted; a byte order mark does no harm."""
    found = read(b'\xef\xbb\xbf{"id": "a", "text": "x"}\n\n{"id": "b", "attributes": {"n": 1}}\n')

    assert [(line.number, line.record["id"]) for line in found] == [(1, "a"), (3, "b")]
    assert found[1].record["attributes"] == {"n": 1}


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b'{"id": "a"}\n{broken\n', "line 2: no valid JSON"),
        (b'{"id": "a"}\n\xff\xfe\n', "line 2: no valid UTF-8"),
        (b'{"id": "a"}\n[1]\n', "line 2: an object is needed, not list"),
        (b'{"id": "a"}\n' + b"[" * 200_000 + b"\n", "line 2: no valid JSON"),
    ],
)
def test_a_bad_json_line_is_named(content: bytes, what: str) -> None:
    """Broken, mis-encoded, deep or wrong: the line is said."""
    with pytest.raises(Invalid, match=what):
        read(content)


def test_csv_makes_the_other_columns_attributes() -> None:
    """Quoted line breaks belong to the cell, and names of columns can be given."""
    layout = Layout(id_column="key", text_column="body", separator=",")

    [line] = read('key,body,author\r\n7,"two\nlines",Ada\r\n', layout)

    assert line.record == {"id": "7", "text": "two\nlines", "attributes": {"author": "Ada"}}


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("id,text\na,b,c\n", "line 2: it has not as many cells"),
        ("id,text\na\n", "line 2: it has not as many cells"),
        ("key,text\na,b\n", "line 1: there is no column 'id'"),
        ("", "line 1: there is no column 'id'"),
        ('id,text\na,"open\n', "no valid CSV"),
    ],
)
def test_a_bad_csv_line_is_named(content: str, what: str) -> None:
    """A row that does not fit its header is no record."""
    with pytest.raises(Invalid, match=what):
        read(content, Layout(separator=","))


def test_keys_of_json_lines_can_be_named_too() -> None:
    """A dump of another system need not be rewritten: a number becomes an id, the rest attributes."""
    [line] = read('{"pk": 7, "body": "x", "n": 1}\n', Layout(id_column="pk", text_column="body"))

    assert line.record == {"id": "7", "text": "x", "attributes": {"n": 1}}


def test_the_format_is_told_by_name_or_option() -> None:
    """What is asked for wins over the file's name."""
    none = {"id_column": None, "text_column": None}
    assert layout_of("a.CSV", form=None, **none).separator == ","
    assert layout_of("a.tsv", form=None, **none).separator == "\t"
    assert layout_of("-", form=None, **none).separator is None
    assert layout_of("a.csv", form="jsonl", **none).separator is None


def test_problems_are_said_by_line() -> None:
    """Positions in a batch become lines of the file."""
    batch = [Line(4, {}), Line(9, {})]

    assert str(at_lines(Invalid("x", problems={1: "empty"}), batch)) == "line 9: empty"
    assert str(at_lines(Invalid("all wrong"), batch)) == "lines 4 to 9: all wrong"


def test_batches_are_of_the_size_asked_for() -> None:
    """The last one may be smaller."""
    found = batches(iter([Line(n, {}) for n in range(5)]), size=2)

    assert [len(batch) for batch in found] == [2, 2, 1]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The refusal names the file."""
    with pytest.raises(Invalid, match=r"gone\.jsonl cannot be read"), opened(str(tmp_path / "gone.jsonl")):
        pass


def test_filters_are_read_both_ways() -> None:
    """A shell knows no types, so a number is also looked for as text; several of one attribute mean any of them."""
    assert read_filter(["year=1843", "name=Ada", "open=true", "tag=a", "tag=b", "eq=x=y"]) == {
        "year": ["1843", 1843],
        "name": ["Ada"],
        "open": ["true", True],
        "tag": ["a", "b"],
        "eq": ["x=y"],
    }
