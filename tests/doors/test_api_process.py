"""What attacks without a key cost a real process."""

import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.doors.conftest import Shell

FILES = 1024  # what a process may open by default on most machines
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


class Service:
    """A served API, and what it takes of the machine."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        """Wait until it says where it is."""
        self.process, self.log = process, log
        assert process.stdout is not None
        line = next(line for line in process.stdout if "http://" in line)
        self.port = int(line.rstrip().rpartition(":")[2])

    def connect(self) -> socket.socket:
        """Open a raw connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def healthy(self) -> bool:
        """Say whether it answers."""
        with self.connect() as wire:
            wire.sendall(HEALTH + b"Connection: close\r\n\r\n")
            return wire.recv(4096).startswith(b"HTTP/1.1 200")

    @property
    def peak(self) -> int:
        """The most memory it ever held, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024


@pytest.fixture
def service(shell: Shell, tmp_path: Path) -> Iterator[Service]:
    environment = shell.environment | {"EMBEDQ_PORT": "0", "EMBEDQ_API_KEY": "the-key-of-this-test"}
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [*shell.command, "serve"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
        try:
            yield Service(process, tmp_path / "log")
        finally:
            process.kill()
            process.communicate()


def test_three_hundred_megabytes_of_headers_take_no_memory(service: Service) -> None:
    """A head without end is cut off at once, and leaves nothing behind."""
    before, sent = service.peak, 0
    with service.connect() as wire, suppress(ConnectionError):
        wire.sendall(HEALTH)
        while sent < 300:
            wire.sendall(b"x-%d: " % sent + b"a" * (1 << 20) + b"\r\n")
            sent += 1

    assert sent < 20
    assert service.peak - before < 20
    assert service.healthy()


def test_a_thousand_idle_connections_shut_nobody_out(service: Service) -> None:
    """The API answers beside more connections than the process may open files, and the log stays small."""
    idle = [service.connect() for _ in range(FILES + 200)]

    assert service.healthy()
    assert service.log.stat().st_size < 10_000
    for wire in idle:
        wire.close()
