"""The house stays small: files, functions and contracts that fit in a head."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "embedq"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_LINES = 300
NOUNS = {"model.py": 500}  # one noun after the other; nobody reads them whole
MOST_FUNCTION_LINES = 40
MOST_METHODS = 7
FUNCTIONS = SOURCE / "stores" / "postgres" / "functions"  # those in schema/ are history
SQL_FUNCTION = re.compile(r"^CREATE FUNCTION (\w+).*?(?:^\$\$;|^RETURN [^$]*?;)$", re.MULTILINE | re.DOTALL)
MOST_SQL_LINES = 80
MOST_SQL = {
    ("answers", "arming", "keeping", "leasing", "placing", "settling", "taking_back"): 899,  # of jobs
    ("putting", "deleting", "vectors"): 575,  # of records
}
LINE = 120
AVOIDED = {"utils", "helpers", "common", "base", "manager", "handler", "misc", "core", "util", "helper"}


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def most_lines(name: str) -> int:
    return NOUNS.get(name, MOST_LINES + (60 if "testing/stores" in name else 0))  # a list of facts may be longer


def test_a_file_is_one_room() -> None:
    """No source file is longer than a room may be."""
    sizes = {name_of(path): len(path.read_text().splitlines()) for path in FILES}

    assert {name: lines for name, lines in sizes.items() if lines > most_lines(name)} == {}


def test_a_function_is_one_thought() -> None:
    """No function is longer than a screen."""
    sizes = {
        f"{name_of(path)}: {node.name}": (node.end_lineno or 0) - node.lineno
        for path in FILES
        for node in functions(path)
    }

    assert {name: lines for name, lines in sizes.items() if lines > MOST_FUNCTION_LINES} == {}


@pytest.mark.parametrize("path", sorted(FUNCTIONS.glob("*.sql")), ids=name_of)
def test_a_function_in_the_database_is_small_too(path: Path) -> None:
    """None is longer than two screens, and each is found."""
    text = path.read_text()
    sizes = {found[1]: found[0].count("\n") + 1 for found in SQL_FUNCTION.finditer(text)}

    assert len(sizes) == len(re.findall(r"^CREATE FUNCTION", text, re.MULTILINE))
    assert {name: lines for name, lines in sizes.items() if lines > MOST_SQL_LINES} == {}


@pytest.mark.parametrize(("names", "most"), MOST_SQL.items(), ids=["jobs", "records"])
def test_the_database_decides_little(names: tuple[str, ...], most: int) -> None:
    """What is not hot is decided by the rules in Python."""
    assert sum(len((FUNCTIONS / f"{name}.sql").read_text().splitlines()) for name in names) <= most


@pytest.mark.parametrize("path", sorted(FUNCTIONS.glob("*.sql")), ids=name_of)
def test_a_function_in_the_database_is_not_crammed(path: Path) -> None:
    """Its lines are no longer than those of Python."""
    assert [line for line in path.read_text().splitlines() if len(line) > LINE] == []


def test_a_contract_is_small() -> None:
    """Each protocol has few methods, split by who asks."""
    sizes = {
        node.name: sum(isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef) for part in node.body)
        for path in (SOURCE / "ports").glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    }

    assert {name: size for name, size in sizes.items() if size > MOST_METHODS} == {}


def test_names_say_what_a_thing_is() -> None:
    """No drawer for everything."""
    names = map(name_of, FILES)

    assert [name for name in names if AVOIDED & set(name.removesuffix(".py").split("/"))] == []
