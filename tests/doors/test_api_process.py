"""What attacks without a key cost a real process."""

import json
import resource
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.doors.conftest import Shell

KEY = "the-key-of-this-test"
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
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    def healthy(self) -> bool:
        """Say whether it answers."""
        with self.connect() as wire:
            wire.sendall(HEALTH + b"Connection: close\r\n\r\n")
            return wire.recv(4096).startswith(b"HTTP/1.1 200")

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Send a request with the key."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
        request = Request(f"http://127.0.0.1:{self.port}{path}", method=method, data=data, headers=headers)
        try:
            with urlopen(request, timeout=60) as answer:  # noqa: S310 loopback
                return answer.status, answer.read()
        except HTTPError as refused:
            return refused.code, refused.read()

    def forget_peak(self) -> None:
        """Let the peak begin anew."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    @property
    def peak(self) -> int:
        """The most memory it ever held, in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) // 1024


@pytest.fixture
def service(shell: Shell, tmp_path: Path) -> Iterator[Service]:
    environment = shell.environment | {"EMBEDQ_PORT": "0", "EMBEDQ_API_KEY": KEY}
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


def test_an_answer_is_bound_whatever_the_collection_holds(service: Service) -> None:
    """A search over 200 MB that asks for all of it is refused without reading it; a list brings a part of it."""
    for batch in range(10):
        records = [{"id": f"{batch}-{n}", "text": f"loom {n} " + "a" * 1_000_000} for n in range(20)]
        assert service.ask("POST", "/collections/notes/records", {"records": records})[0] == 201
    service.forget_peak()
    before = service.peak

    refused, _ = service.ask("POST", "/collections/notes/search", {"query": "loom", "k": 1000, "mode": "keyword"})
    found, answer = service.ask("POST", "/collections/notes/search", {"query": "loom", "k": 3})
    listed, page = service.ask("GET", "/collections/notes/records?limit=1000")

    assert (refused, found, listed) == (413, 200, 200)
    assert len(json.loads(answer)["hits"]) == 3
    assert 30_000_000 < len(page) < 36_000_000
    assert service.peak - before < 250
