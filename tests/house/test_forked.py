"""What a forked command has of its own: all that a new process would have."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked import Loaded, loaded

URL = "sqlite:///made.db"


def test_a_fork_answers_as_a_new_process(tmp_path: Path) -> None:
    """The same exit code, output and errors, for what is done, refused and misspelt."""
    environment = {**os.environ, "EMBEDQ_EMBEDDER": "fake", "COLUMNS": "120", "NO_COLOR": "1", "EMBEDQ_URL": URL}
    for words in (["status"], ["init"], ["status", "--json"], ["nonsense"], ["--help"]):
        forked = loaded().run(words, folder=tmp_path, environment=environment, given=None)
        new = subprocess.run(
            [sys.executable, "-m", "embedq", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

        assert (forked.returncode, forked.stdout, forked.stderr) == (new.returncode, new.stdout, new.stderr)


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_a_fork_leaves_nothing_to_the_next(tmp_path: Path, order: tuple[str, str]) -> None:
    """Folder, variables and what is typed are each command's own."""
    for name in order:
        (tmp_path / name).mkdir()
        environment = {**os.environ, "EMBEDQ_URL": f"sqlite:///{name}.db", "EMBEDQ_EMBEDDER": "fake"}
        typed = f'{{"id": "{name}", "text": "x"}}\n'
        done = loaded().run(["put", "notes", "-"], folder=tmp_path / name, environment=environment, given=typed)

        assert done.returncode == 0, done.stderr
        assert [path.name for path in (tmp_path / name).glob("*.db")] == [f"{name}.db"]
        listed = loaded().run(["list", "notes"], folder=tmp_path / name, environment=environment, given=None)
        assert name in listed.stdout


def test_a_command_that_got_no_answer_leaves_none_to_the_next(tmp_path: Path) -> None:
    """Whoever waits for a process that is gone fails, and the next command has another."""
    gone = loaded()
    gone._process.kill()

    with pytest.raises((ValueError, BrokenPipeError)):
        gone.run(["--version"], folder=tmp_path, environment=dict(os.environ), given=None)

    assert loaded() is not gone
    assert loaded().run(["--version"], folder=tmp_path, environment=dict(os.environ), given=None).returncode == 0


def test_it_ends_with_who_started_it() -> None:
    """No process is left waiting for commands once nobody can give one."""
    own = Loaded(os.environ)
    assert own._process.stdin is not None

    own._process.stdin.close()

    assert own._process.wait(timeout=60) == 0
