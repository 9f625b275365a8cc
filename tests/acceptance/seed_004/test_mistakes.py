"""Seed 004: an everyday mistake with the example is answered by one line, and its page needs no internet."""

import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from tests.acceptance.processes import COMMAND_SECONDS, Place
from tests.acceptance.seed_004.directory import COMMAND, ROOT, start

NOBODY = "postgresql://ada:hidden@127.0.0.1:1/shop"


def run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the application where it cannot start."""
    environment = Place(folder, NOBODY).environment | {"PYTHONPATH": str(ROOT), "DIRECTORY_PORT": "0"} | variables
    return subprocess.run(
        (*COMMAND, *arguments),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "127.0.0.1:1/shop cannot be reached"),
        ({"EMBEDQ_URL": ""}, "Set DATABASE_URL"),
        ({"DIRECTORY_PORT": "many"}, "DIRECTORY_PORT='many': write a number"),
        ({"DIRECTORY_PORT": "99999"}, "DIRECTORY_PORT=99999: write a port"),
        ({"DIRECTORY_WORKERS": "x"}, "DIRECTORY_WORKERS='x': write a number"),
        ({"PYTHONPATH": f"hidden:{ROOT}"}, "asyncpg is missing: run `make examples` once"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, variables: dict[str, str], said: str) -> None:
    """A server, a setting or a driver that is not there: it is named, the exit code is 1, nothing else is said."""
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "asyncpg.py").write_text("raise ModuleNotFoundError('hidden', name='asyncpg')")

    ended = run(tmp_path, **variables)

    [line] = ended.stderr.splitlines()
    assert said in line
    assert "hidden@" not in line
    assert (ended.returncode, ended.stdout) == (1, "")


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    """The setting to change is named."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run(tmp_path, DIRECTORY_PORT=str(port))

    assert ended.stderr == f"DIRECTORY_PORT={port}: 127.0.0.1:{port} cannot be bound (Address already in use).\n"
    assert ended.returncode == 1


def test_help_is_given(tmp_path: Path) -> None:
    """`--help` starts nothing, and other words are wrong usage."""
    assert "Serve the business directory" in run(tmp_path, "--help").stdout
    assert run(tmp_path, "--port", "1").returncode == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_leaves_without_a_word(place: Place, number: signal.Signals) -> None:
    """Told to leave, or by Ctrl-C, it ends with 0 and no traceback."""
    directory = start(place)

    assert directory.leave(number) == 0
    assert "Traceback" not in directory.errors


def test_its_page_loads_nothing_from_elsewhere(place: Place) -> None:
    """Everything that /docs names is served by the application itself."""
    directory = start(place)

    page = directory.http.get("/docs")

    parts = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    own = [part for part in parts if not part.startswith("data:")]
    assert len(own) >= 3
    assert [directory.http.get(f"/{part}").status_code for part in own] == [200] * len(own)
    assert "http" not in page.text
    assert directory.http.get("/openapi.json").json()["info"]["title"] == "A business directory"
