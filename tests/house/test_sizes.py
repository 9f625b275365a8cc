"""The house stays small: files, functions and contracts that fit in a head."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "embedq"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_LINES = 300
NOUNS = {"model.py": 490}  # one noun after the other; nobody reads them whole
MOST_FUNCTION_LINES = 40
MOST_METHODS = 7
AVOIDED = {"utils", "helpers", "common", "base", "manager", "handler", "misc", "core", "util", "helper"}


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_file_is_one_room(path: Path) -> None:
    """No source file is longer than a room may be."""
    most = NOUNS.get(name_of(path), MOST_LINES)
    is_suite = "testing/stores" in name_of(path)  # a list of facts may be longer than a thought

    assert len(path.read_text().splitlines()) <= (most + 60 if is_suite else most)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_function_is_one_thought(path: Path) -> None:
    """No function is longer than a screen."""
    long = [node.name for node in functions(path) if (node.end_lineno or 0) - node.lineno > MOST_FUNCTION_LINES]

    assert long == []


def test_a_contract_is_small() -> None:
    """Each protocol has few methods, split by who asks."""
    sizes = {
        node.name: sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body)
        for path in (SOURCE / "ports").glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    }

    assert {name: size for name, size in sizes.items() if size > MOST_METHODS} == {}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_names_say_what_a_thing_is(path: Path) -> None:
    """No drawer for everything."""
    assert not AVOIDED & set(name_of(path).removesuffix(".py").split("/"))
