"""A terminal of a known size, for commands that look at what they are attached to."""

import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.doors.conftest import Shell

PATIENCE = 60.0
SIZE = (30, 120)


@dataclass(kw_only=True)
class Terminal:
    """A command in a terminal, and what it has shown so far."""

    process: subprocess.Popen[bytes]
    screen: int
    shown: bytes = field(default=b"")

    @property
    def text(self) -> str:
        """What was shown, escape sequences included."""
        return self.shown.decode(errors="replace")

    def until(self, condition: Callable[[str], bool]) -> str:
        """Read until what was shown fulfils a condition."""
        end = time.monotonic() + PATIENCE
        while not condition(self.text):
            assert time.monotonic() < end, self.text
            self._read()
        return self.text

    def ends(self) -> int:
        """Read until the command ends; answer with its exit code."""
        self.until(lambda _: self.process.poll() is not None)
        while self._read():
            continue
        return self.process.returncode

    def type(self, words: str) -> None:
        """Type as a person would."""
        os.write(self.screen, words.encode())

    def _read(self) -> bool:
        if not select.select([self.screen], [], [], 0.1)[0]:
            return False
        try:
            some = os.read(self.screen, 65_536)
        except OSError:  # the other end is closed
            return False
        self.shown += some
        return bool(some)


@contextmanager
def terminal(shell: Shell, *words: str, **variables: str) -> Iterator[Terminal]:
    """Run a command in a terminal, and end it, whatever happens."""
    screen, other = pty.openpty()
    termios.tcsetwinsize(other, SIZE)
    environment = {name: value for name, value in shell.environment.items() if name != "COLUMNS"}
    process = subprocess.Popen(
        [*shell.command, *words],
        cwd=shell.folder,
        env=environment | {"TERM": "xterm"} | variables,
        stdin=other,
        stdout=other,
        stderr=other,
        start_new_session=True,
    )
    os.close(other)
    try:
        yield Terminal(process=process, screen=screen)
    finally:
        process.kill()
        process.wait()
        os.close(screen)
