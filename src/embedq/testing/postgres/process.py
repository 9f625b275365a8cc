"""A server as a process: it ends with the process that started it, and can be killed with all its children."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from embedq.testing.postgres.binaries import Account, PostgresFailed, environment

_SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PAUSE = 0.005


class Daemon:
    """One running server, `postgres` or another, and its children."""

    def __init__(self, command: Sequence[str], *, runner: Account | None, cwd: Path, log: Path) -> None:
        """Start it as that account, its output going to the log."""
        self._command = command
        self._process = _guarded(lambda: self._spawn(runner, cwd, log))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def end(self, how: signal.Signals, *, seconds: float = 60.0) -> None:
        """Send it this signal, and wait until it has ended; after these seconds, kill it."""
        if self.is_running:
            self._process.send_signal(how)
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End it and all its children as a power cut would, and wait until none is left."""
        if not self.is_running:
            return
        self._process.send_signal(signal.SIGSTOP)  # from here on it starts no more children
        wait_until(lambda: _is_stopped(self.pid), seconds=10, what="the server to stand still")
        children = [pid for pid, (parent, _) in _processes().items() if parent == self.pid]
        for pid in (self.pid, *children):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        wait_until(lambda: not _living(children), seconds=10, what="the server's children to end")

    def _spawn(self, runner: Account | None, cwd: Path, log: Path) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603  # our own command
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment(),
                cwd=cwd,
                user=runner.uid if runner else None,
                group=runner.gid if runner else None,
                extra_groups=[] if runner else None,
                start_new_session=True,  # Ctrl-C is for the tests, which then stop the server
                preexec_fn=_die_with(os.getpid()),  # noqa: PLW1509  # one system call, bound before the fork
            )


def wait_until(condition: Callable[[], bool], *, seconds: float, what: str) -> None:
    """Wait for this condition, and fail with its name if it does not become true."""
    give_up_at = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up_at:
            raise PostgresFailed(f"Waited {seconds:g} s in vain for {what}.")
        time.sleep(_PAUSE)


def _guarded(spawn: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Start a process from a thread that lives as long as it: the death signal follows the thread, not the process."""
    started: Future[subprocess.Popen[bytes]] = Future()

    def guard() -> None:
        try:
            process = spawn()
        except (OSError, subprocess.SubprocessError) as error:
            started.set_exception(error)
            return
        started.set_result(process)
        process.wait()

    threading.Thread(target=guard, name="postgres-guard", daemon=True).start()
    return started.result()


def _die_with(parent: int) -> Callable[[], None] | None:
    if _LIBC is None:
        return None
    prctl = _LIBC.prctl

    def ask() -> None:
        prctl(_SET_DEATH_SIGNAL, int(signal.SIGQUIT))
        if os.getppid() != parent:  # the parent died before we could ask
            os._exit(1)

    return ask


def _is_stopped(pid: int) -> bool:
    _, state = _processes().get(pid, (0, "T"))
    return state.startswith("T")


def _living(pids: Sequence[int]) -> list[int]:
    now = _processes()
    return [pid for pid in pids if pid in now and not now[pid][1].startswith("Z")]


def _processes() -> dict[int, tuple[int, str]]:
    """Return every process's parent and state."""
    if not Path("/proc/self/stat").exists():
        return _processes_by_ps()
    found: dict[int, tuple[int, str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it ended while we looked
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
                found[int(entry.name)] = (int(parent), state)
    return found


def _processes_by_ps() -> dict[int, tuple[int, str]]:
    listed = subprocess.run(["/bin/ps", "-A", "-o", "pid=,ppid=,stat="], check=True, capture_output=True, text=True)
    rows = (line.split() for line in listed.stdout.splitlines())
    return {int(pid): (int(parent), state) for pid, parent, state, *_ in rows}
