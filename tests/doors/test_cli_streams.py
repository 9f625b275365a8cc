"""Terminals of all kinds, and pipes that are closed early."""

import json
import os
import signal
import subprocess

import pytest
from rich.text import Text
from tests.doors.conftest import Shell
from tests.doors.terminal import terminal
from tests.doors.test_cli import notes

from embedq.cli.rate import Rate

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
TEXT = "織機 … 🧵 \x1b[2J ─"


@pytest.mark.parametrize(
    "words",
    [
        ("get", "notes", "☃"),
        ("list", "notes"),
        ("search", "notes", "loom", "-m", "keyword"),
        ("status",),
        ("jobs",),
        ("collections",),
        ("delete", "notes", "☂"),
        ("put", "notes", "n.jsonl"),
        ("--help",),
        ("declare", "--help"),
    ],
)
def test_a_terminal_without_unicode_shows_everything(shell: Shell, words: tuple[str, ...]) -> None:
    """What its letters lack is replaced, and no command fails by it."""
    shell.run("put", "notes", shell.write("n.jsonl", {"id": "☃", "text": f"loom {TEXT}", "é": "ü"}))

    shown = shell.run(*words, **ASCII).stdout

    assert shown.isascii()
    assert shown.strip()


def test_signs_are_replaced_by_what_they_mean(shell: Shell) -> None:
    """A dot, an ellipsis, a line and a control have an ASCII way; other letters are escaped."""
    shell.run("put", "notes", shell.write("n.jsonl", {"id": "a", "text": TEXT}))

    assert "\\u7e54\\u6a5f ... \\U0001f9f5 ^[[2J -" in shell.run("get", "notes", "a", **ASCII).stdout
    assert shell.run("delete", "notes", "a", **ASCII).stdout == "* 1 record deleted from notes\n"
    assert "\n +  database " in shell.run("doctor", **ASCII).stdout
    assert "embedq: no record '\\u2603'" in shell.run("get", "notes", "☃", code=1, **ASCII).stderr


def test_json_is_whole_without_unicode(shell: Shell) -> None:
    """A program reads the very strings, whatever the encoding of the pipe."""
    shell.run("put", "notes", shell.write("n.jsonl", {"id": "a", "text": TEXT}))

    assert json.loads(shell.run("get", "notes", "a", "--json", **ASCII).stdout)["text"] == TEXT
    assert json.loads(shell.run("export", "notes", **ASCII).stdout)["text"] == TEXT


@pytest.mark.parametrize("words", ["list notes -n 1000", "list notes -n 1000 --json", "export notes", "--help"])
def test_a_reader_that_has_enough_is_no_error(shell: Shell, words: str) -> None:
    """A pipe that is closed early ends the command without a word."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(2000)))

    line = f"{' '.join(shell.command)} {words} | head -c 1"
    done = subprocess.run(
        ["sh", "-c", line], cwd=shell.folder, env=shell.environment, capture_output=True, check=True, timeout=60
    )

    assert (len(done.stdout), done.stderr) == (1, b"")


def test_a_terminal_gets_a_log_for_people(shell: Shell) -> None:
    """`work` in a terminal logs readable lines, in a file JSON."""
    with terminal(shell, "work") as screen:
        screen.until(lambda text: "started" in text)
        os.kill(screen.process.pid, signal.SIGTERM)
        assert screen.ends() == 0

    assert '"event"' not in screen.text
    assert "stopped" in screen.text


def test_a_drain_in_a_terminal_says_what_it_waits_for(shell: Shell) -> None:
    """The line says how many are pending and processing; it ends with the reason if nobody works."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(3)))

    with terminal(shell, "drain", "--timeout", "60") as screen:
        screen.until(lambda text: "waiting for 3 jobs: 3 pending, 0 processing" in text)
        assert screen.ends() == 1

    assert "3 jobs left: no worker runs: start one with `embedq work`" in screen.text


def test_a_drain_in_a_pipe_says_it_once(shell: Shell) -> None:
    """Its facts are on stdout, at the end; what it waits for is one line on stderr."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(3)))

    done = shell.run("drain", "--timeout", "2", "--json", code=1)

    assert done.stderr == "● waiting for 3 jobs: 3 pending, 0 processing\n"
    facts = json.loads(done.stdout)
    assert (facts["status"], facts["processing"], facts["reason"]) == ("timeout", 0, None)


def test_a_watched_status_shows_how_fast_it_goes(shell: Shell) -> None:
    """While workers embed, jobs a second and the time left stand in the headline."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(3000)))
    with terminal(shell, "status", "--watch") as screen:
        screen.until(lambda text: "nothing moved in" in text)
        worker = shell.start("work", "--workers", "1", EMBEDQ_FAKE_FAULTS="latency=0.5", EMBEDQ_BATCH_SIZE="20")
        try:
            screen.until(lambda text: " jobs/s, " in text and " left" in text)
        finally:
            worker.terminate()
            worker.communicate()
        os.kill(screen.process.pid, signal.SIGINT)
        assert screen.ends() == 0


def test_a_watched_status_for_programs_is_a_line_each_time(shell: Shell) -> None:
    """Each is a whole status, written at once, until somebody has enough."""
    shell.run("init")
    process = shell.start("status", "--watch", "--json")
    assert process.stdout is not None

    seen = [json.loads(process.stdout.readline()) for _ in range(2)]

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert [status["paused"] for status in seen] == [False, False]


def pace(*samples: tuple[float, int, int]) -> str:
    rate = Rate()
    for at, open_jobs, ended in samples:
        rate.add(at=at, open_jobs=open_jobs, ended=ended)
    assert isinstance(rate.words, Text)
    return rate.words.plain


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        ([], ""),
        ([(0, 100, 0)], ""),
        ([(0, 100, 0), (0.5, 50, 50)], ""),
        ([(0, 100, 0), (2, 80, 20)], "10 jobs/s, 8.0 s left"),
        ([(0, 100, 0), (4, 90, 10)], "2.5 jobs/s, 36.0 s left"),
        ([(0, 100, 0), (2, 0, 100)], ""),
        ([(0, 100, 0), (2, 100, 0)], "nothing moved in 2 s"),
        ([(0, 100, 0), (2, 100, 40)], "20 jobs/s, as many come in"),
        ([(0, 100, 0), (2, 200, 40)], "20 jobs/s, as many come in"),
        ([(0, 100, 500), (2, 80, 0)], "10 jobs/s, 8.0 s left"),  # old jobs were purged
        ([(0, 9000, 0), (20, 1000, 0), (30, 900, 0)], "10 jobs/s, 1 m 30 s left"),  # of late, not since ever
    ],
)
def test_the_rate_is_that_of_the_last_seconds(samples: list[tuple[float, int, int]], said: str) -> None:
    """It is sane whatever moves: nothing is divided by zero, and no time is promised that is not known."""
    assert pace(*samples) == said
