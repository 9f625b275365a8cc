"""The code map leads somewhere: every place it names is there, and every rule has one."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "embedq"
MAP = ROOT / "docs" / "explanation" / "code-map.md"
RULES = ROOT / "docs" / "explanation" / "rules.md"
PLACE = re.compile(r"`((?:[\w-]+/)*[\w-]*(?:\.py|\.sql|/))(?:::([\w.]+))?`")
PLACES = sorted(set(PLACE.findall(MAP.read_text())))


def path_of(file: str) -> Path:
    return (ROOT if file.startswith("tests/") else SOURCE) / file


def names_in_python(text: str) -> set[str]:
    """Name the functions, classes, methods and constants of a module."""
    found: set[str] = set()
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inside = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}.{part.name}" for part in inside}
    return found


def names_in(path: Path) -> set[str]:
    text = path.read_text()
    if path.suffix == ".sql":
        return set(re.findall(r"^CREATE (?:OR REPLACE )?FUNCTION (\w+)", text, re.MULTILINE))
    return names_in_python(text)


def test_the_map_names_places() -> None:
    """The pattern that reads the map finds what is written there."""
    assert len(PLACES) > 40


@pytest.mark.parametrize(("file", "name"), PLACES, ids=lambda value: value or "whole")
def test_a_place_is_there(file: str, name: str) -> None:
    """A file that the map names exists, and so does the name in it."""
    path = path_of(file)

    assert path.exists()
    assert not name or name in names_in(path)


def test_every_rule_is_on_the_map() -> None:
    """The rules that are written down are the rules whose places are named, by their numbers."""
    written = re.findall(r"^(\d+)\. \*\*", RULES.read_text(), re.MULTILINE)
    placed = re.findall(r"^\| (\d+) ", MAP.read_text().split("## Where a rule stands")[1], re.MULTILINE)

    assert written == placed == [str(number) for number in range(1, 14)]


def test_a_rule_that_the_code_cites_is_written_down() -> None:
    """No comment or docstring points to a rule that nobody can look up, and the rules of the policy are cited."""
    cited = {
        int(number)
        for path in [
            *(SOURCE / "policy").rglob("*.py"),
            *(SOURCE / "stores").rglob("*.py"),
            *(SOURCE / "stores").rglob("*.sql"),
        ]
        if "schema" not in path.parts
        for number in re.findall(r"^[^=]*(?:#|--|\"\"\").*\[(\d+)\]", path.read_text(), re.MULTILINE)
    }

    assert {2, 3, 5, 8} <= cited <= set(range(1, 14))
