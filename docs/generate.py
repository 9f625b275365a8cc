"""Writes the tables of the reference pages from the code, between their marks. Run it after a change; a test checks it.

.venv/bin/python docs/generate.py
"""
# ruff: noqa: INP001 a script, no package

import inspect
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Any

from fastapi.openapi.utils import get_openapi
from typer import Typer
from typer.models import ArgumentInfo, OptionInfo

from embedq.api import problems
from embedq.api.routes import ROUTERS
from embedq.app import table
from embedq.cli.entry import GROUPS, PANELS
from embedq.metrics import TABLE

REFERENCE = Path(__file__).parent / "reference"
MARKED = re.compile(r"(<!-- made by docs/generate\.py -->\n).*?(<!-- end -->)", re.DOTALL)
ANY_ROUTE = {str(status) for status in problems.ANY_ROUTE}  # said once, above the table
KINDS: Mapping[type, str] = {str: "text", int: "number", float: "number", bool: ""}


def settings_table() -> str:
    """List every setting with its variables, key, default and bounds."""
    rows = [
        (
            ", ".join(f"`{name}`" for name in row.variables),
            f"`{row.key}`",
            _default(row.default),
            row.bounds,
            row.description,
        )
        for row in table()
    ]
    return _table(("variable", "in `embedq.toml`", "default", "takes", "meaning"), rows)


def metrics_table() -> str:
    """List every figure of `/metrics`."""
    rows = [
        (f"`{name}`", kind, ", ".join(f"`{label}`" for label in labels), said) for name, kind, labels, said in TABLE
    ]
    return _table(("metric", "kind", "labels", "meaning"), rows)


def command_pages() -> str:
    """Describe every command with its arguments and options."""
    parts = []
    for panel, entries in PANELS.items():
        parts.append(f"## {panel}\n")
        parts += [_command(name, function) for name, function in entries.items()]
        for group, commands in GROUPS.get(panel, {}).items():
            parts += [_command(f"{group} {name}", function) for name, function in commands_of(commands)]
    return "\n".join(parts)


def route_table() -> str:
    """List every route with its parameters and the statuses it may answer with."""
    routes = [route for router in ROUTERS for route in router.routes]
    paths = get_openapi(title="embedq", version="", routes=routes)["paths"]
    rows = [
        (
            f"`{method.upper()} {path}`",
            _sentence(spec),
            _query(spec),
            ", ".join(sorted(set(spec["responses"]) - ANY_ROUTE)),
        )
        for path, methods in paths.items()
        for method, spec in methods.items()
    ]
    return _table(("route", "does", "query", "answers"), rows)


PAGES: Mapping[str, Callable[[], str]] = {
    "settings.md": settings_table,
    "metrics.md": metrics_table,
    "cli.md": command_pages,
    "http.md": route_table,
}


def renewed(page: str) -> str:
    """Answer with a page as it should be: its own words, and the part that is made from the code."""
    made = PAGES[page]()
    text, times = MARKED.subn(lambda found: found[1] + "\n" + made + "\n" + found[2], (REFERENCE / page).read_text())
    if times != 1:
        raise ValueError(f"{page} must have one pair of marks, it has {times}")
    return text


def commands_of(group: Typer) -> Iterator[tuple[str, Callable[..., Any]]]:
    """List the commands of a group."""
    for entry in group.registered_commands:
        if entry.callback is not None:
            yield entry.name or entry.callback.__name__, entry.callback


def _command(name: str, function: Callable[..., Any]) -> str:
    found = [(key, info, kind, default) for key, info, kind, default in _parameters(function)]
    arguments = [info for _, info, _, _ in found if isinstance(info, ArgumentInfo)]
    words = [_word(function, key, info, default) for key, info, _, default in found if isinstance(info, ArgumentInfo)]
    rows = [(f"`{info.metavar}`", "", info.help or "") for info in arguments]
    rows += [_option(key, info, kind, default) for key, info, kind, default in found if isinstance(info, OptionInfo)]
    usage = " ".join(["embedq", name, *words, "[options]"])
    said = " ".join((inspect.getdoc(function) or "").split())
    return f"### `{usage}`\n\n{said}\n\n{_table(('option', 'takes', 'meaning'), rows)}"


def _word(function: Callable[..., Any], key: str, info: ArgumentInfo, default: object) -> str:
    """Write an argument as usage does: `ID...` takes several, `[FILE]` may be left out."""
    word = f"{info.metavar}{'...' if 'list[' in str(typing.get_type_hints(function)[key]) else ''}"
    return word if default is inspect.Parameter.empty else f"[{word}]"


def _parameters(function: Callable[..., Any]) -> Iterator[tuple[str, ArgumentInfo | OptionInfo, type, object]]:
    hints = typing.get_type_hints(function, include_extras=True)
    for key, parameter in inspect.signature(function).parameters.items():
        kind, info = typing.get_args(hints[key])[:2]
        yield key, info, _bare(kind), parameter.default


def _bare(kind: Any) -> type:  # noqa: ANN401 whatever an annotation is
    """Take `| None` and `list[...]` away."""
    options = [option for option in typing.get_args(kind) if option is not NoneType] or [kind]
    inner = typing.get_args(options[0]) or options
    return typing.cast("type", inner[0])


def _option(key: str, info: OptionInfo, kind: type, default: object) -> tuple[str, str, str]:
    first = [info.default] if isinstance(info.default, str) else []  # within Annotated, a name stands in its place
    names = [*first, *(info.param_decls or ())] or [f"--{key.replace('_', '-')}"]
    return ", ".join(f"`{name}`" for name in names), _takes(info, kind), f"{info.help or ''}{_unsaid(default)}"


def _unsaid(default: object) -> str:
    """Say what an option means that is left out."""
    if default is inspect.Parameter.empty:
        return " Required."
    return f" Default: {default.value if isinstance(default, Enum) else default}." if default else ""


def _takes(info: OptionInfo, kind: type) -> str:
    if issubclass(kind, Enum):
        return ", ".join(f"`{member.value}`" for member in kind)
    if info.min is None:
        return KINDS[kind]
    return f"{info.min:,g} to {info.max:,g}" if info.max is not None else f"{info.min:g} or more"


def _sentence(spec: Mapping[str, Any]) -> str:
    return " ".join(spec["description"].split())


def _query(spec: Mapping[str, Any]) -> str:
    return ", ".join(f"`{each['name']}`" for each in spec.get("parameters", ()) if each["in"] == "query")


def _default(value: str) -> str:
    return value if value == "unset" else f"`{value}`"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return ""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def main() -> None:
    """Write all pages."""
    for page in PAGES:
        (REFERENCE / page).write_text(renewed(page))


if __name__ == "__main__":
    main()
