"""How a line of a file becomes a record: which fields are its own, and that all others are attributes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedq.cli.columns import Kind
from embedq.errors import Invalid

CSV_SUFFIXES = {".csv": ",", ".tsv": "\t"}
SEPARATORS = {"csv": ",", "tsv": "\t", "jsonl": None}
OWN_FIELDS = ("priority", "tenant")
EMBEDDING = "_embedding"  # what `export --vectors` adds: a vector is made from its text again


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Which fields mean what."""

    id_column: str | None = None
    text_column: str | None = None
    separator: str | None = None  # None: JSON lines
    types: Mapping[str, Kind] = field(default_factory=dict)  # of a CSV file's columns
    own_text: bool = True  # False: the collection makes texts from attributes, so `text` is an attribute too

    @property
    def id(self) -> str:
        """The field that holds the id."""
        return self.id_column or "id"

    @property
    def text(self) -> str | None:
        """The field that holds the text, if one does."""
        return self.text_column or ("text" if self.own_text else None)

    @property
    def untyped(self) -> set[str | None]:
        """The fields that are not attributes."""
        return {self.id, self.text, *OWN_FIELDS}


def layout_of(path: str, *, form: str | None, **columns: Any) -> Layout:  # noqa: ANN401 each is of its own field's type
    """Determine the format by the option, or by the file's name."""
    separator = SEPARATORS[form] if form else CSV_SUFFIXES.get(Path(path).suffix.lower())
    return Layout(separator=separator, **columns)


def record_of(row: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """Make a record from the fields of a line."""
    if layout.id not in row:
        raise Invalid(f"there is no {layout.id!r}: name the field that holds the id with --id-column")
    record: dict[str, Any] = {"id": _id(row[layout.id])}
    if layout.text is not None and row.get(layout.text) is not None:
        record["text"] = row[layout.text]
    record |= {name: row[name] for name in OWN_FIELDS if row.get(name) not in (None, "")}
    if attributes := _attributes(row, layout):
        record["attributes"] = attributes
    return record


def _attributes(row: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """Join the object `attributes` and the fields beside it; a name that stands in both is refused."""
    rest = {name: value for name, value in row.items() if name not in layout.untyped and name != EMBEDDING}
    if layout.separator:  # a cell holds no object, so that a column `attributes` is one like the others
        return rest
    given = rest.pop("attributes", None) or {}
    if not isinstance(given, Mapping):
        raise Invalid(f"`attributes` must be an object, not {type(given).__name__}")
    if both := sorted(given.keys() & rest.keys()):
        raise Invalid(f"{both[0]!r} stands in `attributes` and beside it: write it once")
    return {**given, **rest}


def _id(value: object) -> object:
    """Accept a number as an id in a file; records have string ids only."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
