"""Tells live processes of this host from dead ones."""

import os
import socket
import sys
from functools import cached_property
from pathlib import Path

from embedq.model import Process

_STATE, _BORN = 0, 19  # fields of /proc/PID/stat, counted after the command's name
_OVER = {"Z", "X", "x"}  # a zombie does not run any more


class HostLiveness:
    """Reads process states from /proc. In doubt, a process is alive."""

    def __init__(self, proc: Path = Path("/proc"), machine_id: Path = Path("/etc/machine-id")) -> None:
        """Read what the kernel shows under `proc`."""
        self._proc = proc
        self._machine_id = machine_id

    def me(self) -> Process:
        """Describe this process."""
        pid = os.getpid()
        stat = self._stat(pid)
        return Process(host=self._host, boot=self._boot, pid=pid, born=stat[_BORN] if stat else "")

    def is_dead(self, process: Process) -> bool:
        """Return True only if it ran on this host and certainly no longer runs."""
        if process.host != self._host:
            return False
        if process.boot != self._boot:
            return bool(process.boot and self._boot)  # the machine was restarted since
        return self._is_gone(process) if self._boot else _has_no_pid(process.pid)

    def _is_gone(self, process: Process) -> bool:
        stat = self._stat(process.pid)
        if stat is None:
            return _has_no_pid(process.pid)
        return stat[_STATE] in _OVER or (bool(process.born) and stat[_BORN] != process.born)

    def _stat(self, pid: int) -> list[str] | None:
        """Read the fields after the command's name, which may itself contain spaces and parentheses."""
        text = self._read(self._proc / str(pid) / "stat")
        fields = text.rpartition(")")[2].split()
        return fields if len(fields) > _BORN else None

    @cached_property
    def _host(self) -> str:
        """Identify machine and pid namespace: a pid is unique only within both."""
        try:
            namespace = str((self._proc / "self" / "ns" / "pid").stat().st_ino)
        except OSError:
            namespace = ""
        return "/".join((socket.gethostname(), self._read(self._machine_id)[:12], namespace))

    @cached_property
    def _boot(self) -> str:
        return self._read(self._proc / "sys" / "kernel" / "random" / "boot_id")

    @staticmethod
    def _read(path: Path) -> str:
        try:
            return path.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return ""


def _has_no_pid(pid: int) -> bool:
    if sys.platform == "win32":
        return False  # on Windows, signal 0 would end the process
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False  # it exists, but belongs to another user
    return False
