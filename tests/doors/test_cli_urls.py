"""Where the database is, as the command line says it: without its password, and with what is missing to reach it."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.doors.conftest import Shell

PASSWORD = "correct-horse"  # noqa: S105 a word to look for


@pytest.fixture
def keyed_url(postgres_url: str) -> str:
    """The test's database, by a URL that has passwords in both places; the server asks for none."""
    return postgres_url.replace("@", f":{PASSWORD}@", 1) + f"?sslpassword={PASSWORD}"


@pytest.mark.parametrize(
    ("words", "shown"),
    [(("status",), True), (("init",), True), (("init", "--json"), True), (("status", "--json"), False),
     (("doctor",), False)],
)  # fmt: skip
def test_a_password_is_never_shown(shell: Shell, keyed_url: str, words: tuple[str, ...], *, shown: bool) -> None:
    """Commands that name the database do so without its password, and those that do not name it are silent too."""
    shell.run("init", EMBEDQ_URL=keyed_url)

    said = shell.run(*words, EMBEDQ_URL=keyed_url)

    assert PASSWORD not in said.stdout + said.stderr
    assert (":***@" in said.stdout) == shown


def test_watching_shows_no_password(shell: Shell, keyed_url: str) -> None:
    """The page that refreshes itself hides it as well."""
    shell.run("init", EMBEDQ_URL=keyed_url)
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "embedq", "status", "--watch"],
        cwd=shell.folder,
        env=shell.environment | {"EMBEDQ_URL": keyed_url, "TERM": "xterm"},
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    seen = b""
    while b"running" not in seen:
        seen += os.read(screen, 65_536)
    process.send_signal(signal.SIGINT)

    assert process.wait(timeout=30) == 0
    os.close(screen)
    assert b":***@" in seen
    assert PASSWORD.encode() not in seen


def test_the_api_that_import_asks_is_named_without_its_password(shell: Shell) -> None:
    """Nobody answers there: the address is said, the password is not."""
    file = shell.write("n.jsonl", {"id": "a", "text": "loom"})

    said = shell.run("import", "notes", file, CHL_API_BASE_URL=f"http://ada:{PASSWORD}@127.0.0.1:1")

    assert "no API answers at http://ada:***@127.0.0.1:1" in said.stderr
    assert PASSWORD not in said.stdout + said.stderr


def test_a_missing_driver_is_installed_by_the_command_that_is_said(shell: Shell, tmp_path: Path) -> None:
    """It names the Python that lacks it, so that it helps in a checkout as well."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "asyncpg.py").write_text("raise ModuleNotFoundError('hidden', name='asyncpg')")

    said = shell.run("status", "--url", "postgresql://u@127.0.0.1:1/d", code=1, PYTHONPATH=str(hidden)).stderr

    assert said.strip() == f"embedq: asyncpg is missing: run {sys.executable} -m pip install 'embedq[postgres]'"
