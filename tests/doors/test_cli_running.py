"""Processes that run until they are told to leave."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

VARIABLES = ("EMBEDQ_", "EMBED_", "EMBEDDING_", "CHL_", "OPENAI_")
PATIENCE = 60.0


@contextmanager
def running(folder: Path, *words: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """Start `embedq` and end it, whatever happens."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(VARIABLES)}
    process = subprocess.Popen(
        [sys.executable, "-m", "embedq", *words],
        cwd=folder,
        env=environment | {"EMBEDQ_EMBEDDER": "fake", "PYTHONUNBUFFERED": "1"} | variables,
        stdout=subprocess.PIPE,
        stderr=(folder / "log").open("w"),
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def address_of(process: subprocess.Popen[str]) -> str:
    """Read the banner up to the address."""
    assert process.stdout is not None
    for line in process.stdout:
        if "API" in line:
            return line.split()[-1]
    raise AssertionError("no address in the banner")


def ask(url: str, body: object = None) -> Any:  # noqa: ANN401 whatever JSON holds
    """Ask the API."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})  # noqa: S310 loopback
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 loopback
        return json.load(answer)


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def events(folder: Path) -> list[str]:
    """List the events of the log; every line of it is JSON."""
    return [json.loads(line)["event"] for line in (folder / "log").read_text().splitlines()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_up_serves_embeds_and_leaves_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """Written over HTTP, embedded in the background, found; then exit 0 with a log that says so."""
    with running(tmp_path, "up", "--port", "0") as process:
        address = address_of(process)
        ask(f"{address}/collections/notes/records", {"id": "n1", "text": "Call Ada about the loom"})
        until(lambda: ask(f"{address}/collections/notes/records/n1")["embedding_status"] == "embedded")
        assert ask(f"{address}/collections/notes/search", {"query": "loom"})["hits"][0]["id"] == "n1"

        process.send_signal(number)

        assert process.wait(timeout=PATIENCE) == 0
    told = [event for event in events(tmp_path) if event != "index"]  # it is read on a thread of its own, at any moment
    assert told[0] == "started"
    assert told[-2:] == ["stopping", "stopped"]


@pytest.mark.parametrize("key", ["", "a-key;-with-'odd'-\"signs\"-$HOME"], ids=["open", "keyed"])
def test_the_commands_of_the_banner_work(tmp_path: Path, key: str) -> None:
    """Copied from the screen into a shell, they write a record and find it, with a key too, which is not shown."""
    variables = {"EMBEDQ_API_KEY": key} if key else {}
    with running(tmp_path, "up", "--port", "0", **variables) as process:
        assert process.stdout is not None
        shown = "".join(iter(process.stdout.readline, "Ctrl-C leaves cleanly. The log follows.\n"))
        typed = [line.strip() for line in shown.splitlines() if line.strip().startswith("curl ")]
        answers = [
            json.loads(
                subprocess.run(["sh", "-c", f"{line} -s"], env=os.environ | variables, stdout=-1, check=True).stdout
            )
            for line in typed
        ]

    assert [sorted(answer) for answer in answers] == [
        ["embedding_status", "id", "job_id"],
        ["freshness", "hits", "mode_used", "reason"],
    ]
    assert not key or key not in shown + (tmp_path / "log").read_text()


def test_serve_and_work_share_a_database(tmp_path: Path) -> None:
    """The API in one process, workers in another: what one writes the other embeds."""
    with running(tmp_path, "serve", "--port", "0") as api, running(tmp_path, "work", "--workers", "1") as worker:
        address = address_of(api)
        ask(f"{address}/collections/notes/records", {"id": "n1", "text": "x"})
        until(lambda: ask(f"{address}/collections/notes/records/n1")["embedding_status"] == "embedded")

        for process in (worker, api):
            process.terminate()
            assert process.wait(timeout=PATIENCE) == 0


def test_an_import_goes_through_the_api_that_is_named(tmp_path: Path) -> None:
    """CHL_API_BASE_URL: pause, drain and resume are asked of the running API."""
    (tmp_path / "new.jsonl").write_text('{"id": "a", "text": "x"}\n')
    with running(tmp_path, "serve", "--port", "0") as api:
        address = address_of(api)
        with running(tmp_path, "import", "notes", "new.jsonl", CHL_API_BASE_URL=address) as importer:
            assert importer.wait(timeout=PATIENCE) == 0
        assert ask(f"{address}/admin/queue/status")["paused"] is False
        assert [record["id"] for record in ask(f"{address}/collections/notes/records")["records"]] == ["a"]


def test_a_taken_port_is_said_before_anything_starts(tmp_path: Path) -> None:
    """The setting to change is named, and the exit code is 1."""
    with running(tmp_path, "serve", "--port", "0") as first:
        port = address_of(first).rpartition(":")[2]
        with running(tmp_path, "up", "--port", port) as second:
            assert second.wait(timeout=PATIENCE) == 1
        assert f"EMBEDQ_PORT={port}" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("words", [("up", "--port", "0"), ("serve", "--port", "0"), ("work",)])
def test_openai_without_a_key_does_not_start(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Never a silent stand-in: the variable is named, and the exit code is 1."""
    with running(tmp_path, *words, EMBEDQ_EMBEDDER="openai:text-embedding-3-small") as process:
        assert process.wait(timeout=PATIENCE) == 1

    assert "OPENAI_API_KEY" in (tmp_path / "log").read_text()
