"""Writes the client without asyncio from the methods of the async one. Run it after a change; a test checks it.

.venv/bin/python tools/generate_sync.py
"""
# ruff: noqa: INP001 a script, no package

import ast
import builtins
import inspect
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from embedq.client.client import Client
from embedq.client.tables import Tables
from embedq.operator.operator import Operator

FOLDER = Path(__file__).parents[1] / "src" / "embedq" / "sync"
SOURCES: Mapping[str, type] = {"client.py": Client, "operator.py": Operator, "tables.py": Tables}
OWN = {"close"}  # what `SyncEmbedQ` has of its own

HEAD = '''"""The methods of `{name}` without asyncio. Made by tools/generate_sync.py: not to be edited."""

{imports}
from embedq.sync.portal import Portal


class Sync{name}:
    """{said}"""

    def __init__(self, asynchronous: {name}, portal: Portal) -> None:
        """Run its methods on this portal, and wait for them."""
        self._async = asynchronous
        self._portal = portal
'''

Method = ast.FunctionDef | ast.AsyncFunctionDef


def made(file: str) -> str:
    """Return a file as it should be."""
    source = SOURCES[file]
    module = ast.parse(inspect.getsource(inspect.getmodule(source) or source))
    [found] = [node for node in module.body if isinstance(node, ast.ClassDef) and node.name == source.__name__]
    methods = [_method(node) for node in found.body if _is_public(node)]
    imports = _imports(module, source, {name for method in methods for name in _names(method)})
    head = HEAD.format(said=inspect.getdoc(source), name=source.__name__, imports="\n".join(imports))
    bodies = ast.unparse(ast.ClassDef(source.__name__, [], [], methods, [])).split("\n")[1:]
    return _formatted("\n".join([head, *bodies]))


def _is_public(node: ast.stmt) -> bool:
    return isinstance(node, Method) and not node.name.startswith("_") and node.name not in OWN


def _method(node: ast.stmt) -> ast.stmt:
    """Keep signature and docstring; the body runs the async method."""
    assert isinstance(node, Method)  # noqa: S101 only public methods come here
    arguments = [arg.arg for arg in node.args.args[1:]] + [f"{arg.arg}={arg.arg}" for arg in node.args.kwonlyargs]
    arguments += [f"**{node.args.kwarg.arg}"] if node.args.kwarg else []
    call = f"self._async.{node.name}({', '.join(arguments)})"
    if isinstance(node, ast.AsyncFunctionDef):
        call = f"self._portal.run({', '.join([f'self._async.{node.name}', *arguments])})"
    is_answer = not (isinstance(node.returns, ast.Constant) and node.returns.value is None)
    body = [node.body[0], *ast.parse(f"return {call}" if is_answer else call).body]
    return ast.FunctionDef(node.name, node.args, body, [], node.returns, lineno=0)


def _names(method: ast.stmt) -> Iterator[str]:
    """List the names that a signature needs."""
    assert isinstance(method, ast.FunctionDef)  # noqa: S101 made by us
    for part in (method.args, method.returns):
        for node in ast.walk(part) if part else ():
            if isinstance(node, ast.Name) and not hasattr(builtins, node.id):
                yield node.id


def _imports(module: ast.Module, source: type, names: set[str]) -> list[str]:
    """Import each name from where the source has it."""
    found = {
        alias.asname or alias.name: node.module
        for node in module.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    found |= dict.fromkeys((names | {source.__name__}) - found.keys(), source.__module__)
    return [f"from {found[name]} import {name}" for name in sorted(names | {source.__name__})]


def _formatted(text: str) -> str:
    for order in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *order, "--stdin-filename", str(FOLDER / "made.py"), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603 our own words
    return text


def main() -> None:
    """Write all files."""
    for file in SOURCES:
        (FOLDER / file).write_text(made(file))


if __name__ == "__main__":
    main()
