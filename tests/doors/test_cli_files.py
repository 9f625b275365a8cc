"""Files of records: what is read, and which line is named."""

import io
from pathlib import Path

import pytest

from embedq.cli.columns import Guess, Kind
from embedq.cli.csvfiles import with_types
from embedq.cli.files import Line, at_lines, batches, entries, lines, opened
from embedq.cli.layout import Layout, layout_of
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
        ("id,text\na,b,c\n", "line 2: it has 3 cells, the header has 2"),
        ("id,text\n\na\n", "line 3: it has 1 cells, the header has 2"),
        (b"id,text\na,\xff\n", "line 2: no valid UTF-8"),
        ("id,text,id\na,b,c\n", "line 1: two columns are named 'id'"),
        ("key,text\na,b\n", "line 1: there is no column 'id'"),
        ("", "line 1: there is no column 'id'"),
        ('id,text\na,"open\n', "no valid CSV"),
    ],
)
def test_a_bad_csv_line_is_named(content: str | bytes, what: str) -> None:
    """A row that does not fit its header is no record."""
    with pytest.raises(Invalid, match=what):
        read(content, Layout(separator=","))


def test_keys_of_json_lines_can_be_named_too() -> None:
    """A dump of another system need not be rewritten: a number becomes an id, the rest attributes."""
    [line] = read('{"pk": 7, "body": "x", "n": 1}\n', Layout(id_column="pk", text_column="body"))

    assert line.record == {"id": "7", "text": "x", "attributes": {"n": 1}}


def test_a_flat_object_is_a_record() -> None:
    """A record's own fields are what they are, a number may be the id, and every other field is an attribute."""
    [line] = read('{"id": 1, "text": "x", "title": "Loom", "price": 3.5, "tenant": "t", "priority": 0}\n')

    assert line.record == {
        "id": "1",
        "text": "x",
        "attributes": {"title": "Loom", "price": 3.5},
        "tenant": "t",
        "priority": 0,
    }


def test_fields_beside_attributes_join_them() -> None:
    """Both ways to write an attribute may be mixed, but none may be written twice."""
    [line] = read('{"id": "a", "attributes": {"n": 1}, "m": null}\n')

    assert line.record == {"id": "a", "attributes": {"n": 1, "m": None}}
    with pytest.raises(Invalid, match="line 1: 'n' stands in `attributes` and beside it"):
        read('{"id": "a", "attributes": {"n": 1}, "n": 2}\n')
    with pytest.raises(Invalid, match="line 1: `attributes` must be an object, not list"):
        read('{"id": "a", "attributes": [1]}\n')


def test_text_is_an_attribute_where_texts_are_made_from_attributes() -> None:
    """A collection with `text_from` has no text of its own, so a column of that name is one like the others."""
    [line] = read('{"id": "a", "title": "x", "text": "y"}\n', Layout(own_text=False))

    assert line.record == {"id": "a", "attributes": {"title": "x", "text": "y"}}


def test_an_exported_vector_is_no_attribute() -> None:
    """What `export --vectors` adds does not come back as data."""
    [line] = read('{"id": "a", "text": "x", "_embedding": {"space": "fake", "vector": [1.0]}}\n')

    assert line.record == {"id": "a", "text": "x"}


def kind_of(*cells: str) -> Kind:
    guess = Guess()
    for cell in cells:
        guess.add(cell)
    return guess.kind


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (("1", "-20", "0", ""), Kind.NUMBER),
        (("3.5", "10", "0.25"), Kind.NUMBER),
        (("3.50", "10.00"), Kind.NUMBER),
        (("1.1", "1.10"), Kind.TEXT),  # versions
        (("007", "8"), Kind.TEXT),
        (("+5",), Kind.TEXT),
        (("-0",), Kind.TEXT),
        (("-0.0",), Kind.TEXT),
        (("1e5",), Kind.TEXT),
        (("NaN",), Kind.TEXT),
        (("1_000",), Kind.TEXT),
        (("1 ",), Kind.TEXT),
        (("\u0663",), Kind.TEXT),
        (("999999999999999",), Kind.NUMBER),
        (("9007199254740993",), Kind.TEXT),
        (("0.1234567890123456",), Kind.TEXT),
        (("1", "x"), Kind.TEXT),
        (("true", "False", ""), Kind.BOOLEAN),
        (("true", "1"), Kind.TEXT),
        (("yes", "no"), Kind.TEXT),
        (("", ""), Kind.TEXT),
    ],
)
def test_a_columns_type_loses_nothing(cells: tuple[str, ...], kind: Kind) -> None:
    """Cells become numbers or booleans only if no two different ones become the same value."""
    assert kind_of(*cells) is kind


def test_one_odd_cell_makes_the_whole_column_text() -> None:
    """Values of one column compare alike: the type is that of all its cells, and an empty one is null."""
    content = b"id,n,size\na,1,1\nb,2,\nc,x,3\n"
    layout = with_types(io.BytesIO(content), Layout(separator=","))

    found = [line.record["attributes"] for line in read(content, layout)]

    assert found == [{"n": "1", "size": 1}, {"n": "2", "size": None}, {"n": "x", "size": 3}]


def test_a_bad_row_does_not_decide_types() -> None:
    """Rows that will be refused are not looked at."""
    content = b'id,n\na,1\nb,x,y\nc,"open"x\nd,2\n'

    assert with_types(io.BytesIO(content), Layout(separator=",")).types == {"n": Kind.NUMBER}


@pytest.mark.parametrize(
    ("cell", "kind", "value"),
    [
        ("007", Kind.NUMBER, 7),
        ("3.50", Kind.NUMBER, 3.5),
        ("1e3", Kind.NUMBER, 1000.0),
        ("1", Kind.BOOLEAN, True),
        ("No", Kind.BOOLEAN, False),
        ("42", Kind.TEXT, "42"),
        ("", Kind.NUMBER, None),
        ("", Kind.TEXT, None),
    ],
)
def test_a_type_that_is_named_wins(cell: str, kind: Kind, value: object) -> None:
    """Who names a type means it, whatever the cells look like."""
    layout = with_types(io.BytesIO(f"id,c\na,{cell}\n".encode()), Layout(separator=",", types={"c": kind}))

    [line] = read(f"id,c\na,{cell}\n", layout)

    assert line.record["attributes"] == {"c": value}


@pytest.mark.parametrize("cell", ["x", "1e999", "9" * 30, "9" * 5000, "1_000", "nan"])
def test_a_cell_that_is_not_of_the_named_type_is_a_bad_line(cell: str) -> None:
    """It is named by line and column, and nothing is guessed."""
    layout = Layout(separator=",", types={"price": Kind.NUMBER})

    with pytest.raises(Invalid, match=r"line 2: column 'price': .* is no number"):
        read(f"id,price\na,{cell}\n", layout)


def test_a_type_of_a_column_that_is_not_there_is_refused() -> None:
    """A typing slip does not go unnoticed."""
    with pytest.raises(Invalid, match="line 1: there is no column 'prize'"):
        with_types(io.BytesIO(b"id,price\n"), Layout(separator=",", types={"prize": Kind.NUMBER}))


def test_a_csv_row_after_a_bad_one_is_read() -> None:
    """A broken row costs itself only, and each is known by the number of its first line."""
    content = b'id,text\na,"two\nlines"\nb,"x"y\nc,\xff\nd,ok\n'

    found = list(entries(io.BytesIO(content), Layout(separator=",")))

    assert [(entry.number, type(entry).__name__) for entry in found] == [
        (2, "Line"),
        (4, "BadLine"),
        (5, "BadLine"),
        (6, "Line"),
    ]
    assert found[2].raw == b"c,\xff\n"


def test_the_format_is_told_by_name_or_option() -> None:
    """What is asked for wins over the file's name."""
    assert layout_of("a.CSV", form=None).separator == ","
    assert layout_of("a.tsv", form=None).separator == "\t"
    assert layout_of("-", form=None).separator is None
    assert layout_of("a.csv", form="jsonl").separator is None


def test_problems_are_said_by_line() -> None:
    """Positions in a batch become lines of the file."""
    batch = [Line(4, {}), Line(9, {})]

    assert str(at_lines(Invalid("x", problems={1: "empty"}), batch)) == "line 9: empty"
    assert str(at_lines(Invalid("all wrong"), batch)) == "lines 4 to 9: all wrong"


def test_a_priority_is_read_as_it_is_written() -> None:
    """A digit is a lane; a number of any length is left for the client to refuse."""
    digits = "9" * 5000

    first, second = read(f"id,text,priority\na,A,3\nb,B,{digits}\n", Layout(separator=","))

    assert (first.record["priority"], second.record["priority"]) == (3, digits)


def test_batches_are_of_the_size_asked_for() -> None:
    """The last one may be smaller."""
    found = batches(iter([Line(n, {}) for n in range(5)]), size=2)

    assert [len(batch) for batch in found] == [2, 2, 1]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    """The refusal names the file."""
    with pytest.raises(Invalid, match=r"gone\.jsonl cannot be read"), opened(str(tmp_path / "gone.jsonl")):
        pass
