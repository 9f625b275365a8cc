"""Commands of embedq in processes of their own that need not load it: one process that has loaded it forks them.

Loading takes four fifths of most commands, and tests run some thousand. A fork differs from a new process in what
Python reads when it starts: a command that is tested for that is started anew.
"""

import functools
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path


class Loaded:
    """A process that has loaded embedq and waits for commands; it ends with the process that started it."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Start it with the environment in which it loads embedq."""
        command = [sys.executable, "-m", "tests.forked"]
        root = Path(__file__).parents[1]
        self._process = subprocess.Popen(
            command, cwd=root, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(
        self, words: Sequence[str], *, folder: Path, environment: Mapping[str, str], given: str | None
    ) -> subprocess.CompletedProcess[str]:
        """Run one command to its end."""
        with tempfile.TemporaryDirectory() as streams:
            given_file, out, err = (Path(streams, name) for name in ("in", "out", "err"))
            given_file.write_text(given or "")
            paths = [str(path) for path in (given_file, out, err)]
            code = self._ask({"words": words, "folder": str(folder), "environment": environment, "streams": paths})
            return subprocess.CompletedProcess(words, code, out.read_text(), err.read_text())

    def _ask(self, command: Mapping[str, object]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(command) + "\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())
        except BaseException:  # a timeout among them: the next command must not read the answer to this one
            self._process.kill()
            loaded.cache_clear()
            raise


@functools.cache
def loaded() -> Loaded:
    """Start the one that all tests of this process share."""
    return Loaded({**os.environ, "COLUMNS": "120", "NO_COLOR": "1"})


def _wait_for_command() -> dict[str, object]:
    """Fork at each command that is asked for, and answer with its exit code; return in the fork, or leave."""
    for line in sys.stdin:
        child = os.fork()
        if not child:
            return dict(json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()
    sys.exit()


def _become(words: Sequence[str], folder: str, environment: Mapping[str, str], streams: Sequence[str]) -> None:
    """Take over all that a process has of its own."""
    for number, path in enumerate(streams):
        file = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)  # noqa: SIM115 until it ends
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["embedq", *words]


if __name__ == "__main__":
    from embedq.cli import main

    gc.freeze()
    _become(**_wait_for_command())  # type: ignore[arg-type]  # as JSON brings them
    main()
