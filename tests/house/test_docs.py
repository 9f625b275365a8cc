"""The docs are true: their links lead somewhere, their tables are the code's, and their commands run."""

import asyncio
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import asyncpg
import pytest
from tests.acceptance.processes import Api, Place
from tests.house.pages import DOCS, HERE, ROOT, SECONDS, blocks, curl_knows_json, typed

from embedq.api.problems import BUSY, KINDS, OF_STATUS, PREFIX, UNAUTHORIZED
from embedq.app import EmbedQ, table
from embedq.client.tables import Tables
from embedq.embedders.fake import FAKE_LOG
from embedq.embedders.faults import VARIABLE, Kind
from embedq.operator import Operator
from embedq.settings.sources import CONFIG_VARIABLE
from embedq.stores.postgres.pool import MOST
from embedq.telemetry import Event

PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted(DOCS.rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]
RUN = [ROOT / "README.md", DOCS / "tutorial.md", DOCS / "reference" / "python.md", *sorted(DOCS.glob("howto/*.md"))]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FIGURE = re.compile(r"`(embedq_[a-z_]+)`")
ROW = re.compile(r"^\| (.+?) \|", re.MULTILINE)
FILE = re.compile(r"# ([\w/]+\.py)\n")  # a program that names its file is written there, for those that follow
SHOWN_DATABASE = "postgresql://ada@localhost/shop"  # a how-to that names it is run on PostgreSQL
BY_PIP = ("pip install ", "python3 -m venv ")
NO_SETTINGS = {CONFIG_VARIABLE, "HF_HUB_OFFLINE"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def read(*parts: str) -> str:
    return DOCS.joinpath(*parts).read_text()


def anchors(path: Path) -> set[str]:
    """Name the headings of a page the way GitHub does."""
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """Load the script that makes the reference's tables."""
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    """Every link to a page of ours names a file that is there, and a heading that is in it."""
    dead = []
    for link in LINK.findall(page.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)

    assert dead == []


@pytest.mark.parametrize("page", ["settings.md", "metrics.md", "cli.md", "http.md"])
def test_the_tables_are_the_codes(generate: ModuleType, page: str) -> None:
    """Making the reference anew from settings, metrics, commands and routes changes nothing."""
    assert read("reference", page) == generate.renewed(page), "run .venv/bin/python docs/generate.py"


def test_an_option_that_must_be_given_is_said_to_be_required(generate: ModuleType) -> None:
    """The reference shows no insides of Python where there is no default."""
    made = generate.command_pages()

    assert "| `--key` | text | The key: COLUMN[,COLUMN] of a unique index. Required. |" in made
    assert "inspect" not in made


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_can_be_typed_as_they_are_printed(page: Path) -> None:
    """In a checkout nothing is on the path: programs of ours are named where they are, unless pip has just put them."""
    shown = [
        line
        for kind, code in blocks(page)
        if kind in {"console", "sh"} and not code.startswith(BY_PIP)
        for line in code.splitlines()
    ]

    assert [line for line in shown if re.search(r"(^|[|;&] *|\w=\S* )(embedq|python3?|pip) ", line)] == []


def test_what_the_front_page_needs_is_installed_by_make_run() -> None:
    """PostgreSQL's driver, too: the page attaches a table."""
    if shutil.which("make") is None:
        pytest.skip("make is not here")
    made = subprocess.run(["make", "-nB", ".venv/.run"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    [extras] = re.findall(r"-e '\.\[(.+)\]'", made)

    assert {"local", "postgres"} <= set(extras.split(","))


def test_no_page_stores_made_up_vectors() -> None:
    """A program that people paste uses their embedder, not the fake; rehearsing is another thing."""
    pages = [page for page in RUN if page.name != "rehearse-bad-days.md"]
    programs = [(page, code) for page in pages for kind, code in blocks(page) if kind == "python"]

    assert [name_of(page) for page, code in programs if "fake" in code] == []


def test_the_most_connections_are_the_codes() -> None:
    """The page that helps to reckon with them names the figure of the pool."""
    assert f"at most {MOST} by a process" in read("howto", "size-it.md")


def test_no_variable_is_invented() -> None:
    """Every variable that the docs name is a setting, or one of the few others that are read."""
    known = {name for row in table() for name in row.variables} | NO_SETTINGS
    named = {
        name for page in PAGES for name in re.findall(r"\b(?:EMBED\w*|CHL|OPENAI|GEMINI)_[A-Z_]+\b", page.read_text())
    }

    assert {name for name in named if name not in known and f"{name}*" not in read("reference", "settings.md")} == set()


def test_no_metric_is_invented(generate: ModuleType) -> None:
    """Every figure that the docs name is one of `/metrics`."""
    made = set(FIGURE.findall(generate.metrics_table()))
    named = {
        name
        for page in PAGES
        for name in re.findall(r"\bembedq_\w+(?:_total|_seconds|_alive|_up|_ratio)\b", page.read_text())
    }

    assert named <= made


def test_every_event_is_listed_once() -> None:
    """The list of events is the enum: none is missing, none is invented."""
    cells = [cell for cell in ROW.findall(read("reference", "events.md")) if cell.startswith("`")]
    listed = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]

    assert sorted(listed) == sorted(Event)


def test_every_problem_is_listed() -> None:
    """The list of problem types is the API's."""
    section = read("reference", "http.md").partition("## Problems")[2]
    listed = set(re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE))

    assert listed == {kind.slug for kind in (*KINDS.values(), *OF_STATUS.values(), UNAUTHORIZED, BUSY)}
    assert PREFIX in section


@pytest.mark.parametrize("noun", [EmbedQ, Operator, Tables])
def test_every_method_is_listed(noun: type) -> None:
    """The Python reference names each public method, with the arguments it has."""
    page = read("reference", "python.md")
    methods = [(name, method) for name, method in inspect.getmembers(noun, inspect.isfunction) if name[0] != "_"]
    missing = [name for name, _ in methods if f"`{name}(" not in page]
    unsaid = [
        f"{name}: {argument}"
        for name, method in methods
        for argument in list(inspect.signature(method).parameters)[1:]
        if f"`{name}(...)" not in page and not re.search(rf"`{name}\([^`]*\b{argument}\b", page)
    ]

    assert missing == []
    assert unsaid == []


def test_every_fault_is_listed() -> None:
    """The page about rehearsals names each fault that can be ordered."""
    page = read("howto", "rehearse-bad-days.md")

    assert [kind for kind in Kind if kind is not Kind.STATUS and f"`{kind.value}=" not in page] == []


def test_every_decision_is_in_the_index() -> None:
    """Each decision has a number of its own, and the index leads to it."""
    decisions = sorted(path.name for path in (DOCS / "adr").glob("[0-9]*.md"))
    linked = [link for link in LINK.findall(read("adr", "README.md")) if link[0].isdigit()]

    assert linked == decisions
    assert [int(name[:4]) for name in decisions] == list(range(1, len(decisions) + 1))


def test_the_front_page_shows_the_two_commands() -> None:
    """A newcomer sees `make run` and `make test` before anything else."""
    first = blocks(ROOT / "README.md")[0][1]

    assert [line.partition("#")[0].strip() for line in first.splitlines()] == ["make run", "make test"]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Place]:
    """A folder in which a reader tries things."""
    place = Place(tmp_path)
    yield place
    place.close()


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_what_a_page_shows_runs(desk: Place, page: Path, request: pytest.FixtureRequest) -> None:
    """Typed in their order beside a started server, the page's commands and programs succeed and answer as shown."""
    if not curl_knows_json():
        pytest.skip("curl 7.82 or newer is not here")
    shown = blocks(page)
    on_postgres = page.parent.name == "howto" and SHOWN_DATABASE in page.read_text()
    url = request.getfixturevalue("postgres_url") if on_postgres else "sqlite:///embedq.db"
    settings: dict[str, object] = {"EMBEDQ_URL": url, VARIABLE: "bad=POISON", FAKE_LOG: None}
    server = desk.up(EMBEDQ_EMBEDDER="fake", **settings)
    environment = desk.with_settings({"EMBEDQ_EMBEDDER": "fake", "EMBEDQ_LOG_LEVEL": None, **settings})
    if on_postgres:  # pg_dump must be as new as the server
        programs = request.getfixturevalue("postgres_server").binaries
        environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"

    for (kind, code), (next_kind, answer) in pairwise([*shown, ("", "")]):
        if kind == "sql":
            asyncio.run(_asked(url, code))
        if kind == "python" and (file := FILE.match(code)):
            written(desk.folder / file[1], code)
            continue
        if kind not in {"sh", "python"}:
            continue
        said = _typed(kind, code, desk.folder, environment, server)
        if kind == "python":  # people run a program more than once
            _typed(kind, code, desk.folder, environment, server)
        if (kind, next_kind) == ("sh", "json"):
            assert _shape(json.loads(said)) == _shape(json.loads(answer)), f"{code}\n{said}"


def written(path: Path, code: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)


async def _asked(url: str, statements: str) -> None:
    """Type statements into a session of the database, and give workers the time a reader takes."""
    db = await asyncpg.connect(url)
    try:
        await db.execute(statements)
    finally:
        await db.close()


def _typed(kind: str, code: str, folder: Path, environment: dict[str, str], server: Api) -> str:
    """Run a block as a reader would, and wait as long as a reader would take for the next."""
    done = typed(kind, code, programs=HERE, address=server.url, folder=folder, environment=environment)
    server.act("drain", timeout=SECONDS)
    return done.stdout


def _shape(value: Any) -> Any:  # noqa: ANN401 whatever JSON holds
    """Keep the names of an answer, not its values; of lists their length."""
    if isinstance(value, dict):
        return {name: _shape(item) for name, item in value.items()}
    return [_shape(item) for item in value] if isinstance(value, list) else None
