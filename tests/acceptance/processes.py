"""Real processes of embedq: started on a database of their own, watched through their log, ended by their pid."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
from tests.acceptance.waiting import until

EMBEDQ = (sys.executable, "-m", "embedq")
OURS = re.compile(r"^(EMBEDQ|EMBED|CHL|OPENAI|GEMINI|OLLAMA)_|^EMBEDDING_")
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
COMMAND_SECONDS = 60
Event = dict[str, Any]
Some = TypeVar("Some", bound="Process")


class Process:
    """One running command. Its log lines are read as they come."""

    def __init__(self, command: Sequence[str], *, folder: Path, name: str, environment: dict[str, str]) -> None:
        """Start it; what it writes goes to files in this folder."""
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.popen = subprocess.Popen(command, stdout=out, stderr=err, cwd=folder, env=environment)

    @property
    def pid(self) -> int:
        """The number by which it is signalled."""
        return self.popen.pid

    @property
    def output(self) -> str:
        """All it wrote to stdout."""
        return self._out.read_text()

    @property
    def errors(self) -> str:
        """All it wrote to stderr, its log included."""
        return self._err.read_text()

    def log(self, event: str | None = None, **facts: object) -> list[Event]:
        """Read its log lines, those of one event with these facts if given."""
        lines = [json.loads(line) for line in self.errors.splitlines() if line.startswith("{") and line.endswith("}")]
        wanted = {"event": event, **facts} if event else facts
        return [line for line in lines if all(line.get(name) == fact for name, fact in wanted.items())]

    def heard(self, event: str, **facts: object) -> Event:
        """Wait for a log line."""
        return until(lambda: self._alive_or_log(event, facts), f"{event} {facts} in the log")[0]

    def stop(self) -> None:
        """Freeze it, as a suspended machine would; return when it stands still."""
        self.popen.send_signal(signal.SIGSTOP)
        until(lambda: Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T", "a standstill")

    def go_on(self) -> None:
        """Let a frozen process go on."""
        self.popen.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Pull the plug."""
        self.popen.kill()
        self.popen.wait(COMMAND_SECONDS)

    def leave(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to leave; answer with its exit code."""
        self.popen.send_signal(number)
        return self.popen.wait(COMMAND_SECONDS)

    def wait(self) -> int:
        """Wait until it ends by itself; answer with its exit code."""
        return self.popen.wait(COMMAND_SECONDS)

    def _alive_or_log(self, event: str, facts: dict[str, object]) -> list[Event]:
        ended = self.popen.poll()
        found = self.log(event, **facts)
        assert found or ended is None, f"the process ended with {ended}:\n{self.errors}"
        return found


class Api(Process):
    """A process that serves the API."""

    def __init__(self, command: Sequence[str], *, folder: Path, name: str, environment: dict[str, str]) -> None:
        """Start it and wait until it answers."""
        super().__init__(command, folder=folder, name=name, environment=environment)
        self.url = until(self._address, "the address in the banner")
        key = environment.get("EMBEDQ_API_KEY")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=self.url, headers=headers, timeout=30)
        until(lambda: self.http.get("/health").status_code == 200, "an answer from /health")

    def put(self, *records: dict[str, Any], collection: str = "notes") -> list[dict[str, Any]]:
        """Write records in one request; answer with their receipts."""
        answer = self.http.post(f"/collections/{collection}/records", json={"records": records})
        assert answer.status_code == 201, answer.text
        return list(answer.json()["records"])

    def record(self, name: str, *, collection: str = "notes") -> dict[str, Any]:
        """Read a record with its vector."""
        return self._json("GET", f"/collections/{collection}/records/{name}", params={"include": "vector"})

    def job(self, name: str) -> dict[str, Any]:
        """Read a job."""
        return self._json("GET", f"/jobs/embedding/{name}")

    def jobs(self, **which: str) -> list[dict[str, Any]]:
        """List jobs."""
        return list(self._json("GET", "/jobs/embedding", params={"limit": "1000", **which})["jobs"])

    def status(self) -> dict[str, Any]:
        """Read the queue's status."""
        return self._json("GET", "/admin/queue/status")

    def act(self, name: str, **parameters: float) -> dict[str, Any]:
        """Operate the queue: pause, resume, drain, retry-failed, requeue-stale."""
        return self._json("POST", f"/admin/queue/{name}", params=parameters)

    def counts(self) -> dict[str, int]:
        """Count all jobs by status, and the live records without a current vector."""
        status = self.status()
        return {name: found["total"] for name, found in status["queue"].items()} | {
            "records": status["records"]["total"],
            "missing": status["missing"]["total"],
        }

    def counted(self, *, patience: float = 20.0, **expected: int) -> dict[str, int]:
        """Wait until the counts are as expected."""
        last: dict[str, int] = {}

        def as_expected() -> bool:
            last.update(self.counts())
            return all(last[name] == value for name, value in expected.items())

        try:
            until(as_expected, f"counts {expected}", patience=patience)
        except AssertionError as error:
            raise AssertionError(f"{error}; counts were {last}; log:\n{self.errors[-4000:]}") from error
        return last

    def embedded(self, records: int, *, patience: float = 20.0) -> dict[str, int]:
        """Wait until so many records are there and each has a vector of its current text."""
        return self.counted(records=records, missing=0, pending=0, processing=0, patience=patience)

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:  # noqa: ANN401 httpx's own options
        answer = self.http.request(method, path, **options)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return dict(answer.json())

    def _address(self) -> str | None:
        assert self.popen.poll() is None, f"the process ended with {self.popen.returncode}:\n{self.errors}"
        found = ADDRESS.search(self.output)
        return found.group() if found else None


class Place:
    """A folder with one database, and all processes that were started on it."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        """Use this folder, with a SQLite file in it unless a URL names another database."""
        self.folder = folder
        self.database = folder / "queue.db"
        self.is_a_file = url is None
        self.calls_file = folder / "calls.jsonl"
        self.processes: list[Process] = []
        inherited = {name: value for name, value in os.environ.items() if not OURS.match(name)}
        self.environment = {
            **inherited,
            "EMBEDQ_URL": url or f"sqlite:///{self.database}",
            "EMBEDQ_EMBEDDER": "fake@16",
            "EMBEDQ_FAKE_LOG": str(self.calls_file),
            "EMBEDQ_LOG_LEVEL": "debug",
            "EMBEDQ_PORT": "0",
        }
        if "EMBEDQ_MODEL_DIR" in os.environ:  # where this machine keeps the weights of the local model
            self.environment["EMBEDQ_MODEL_DIR"] = os.environ["EMBEDQ_MODEL_DIR"]

    def up(self, **settings: object) -> Api:
        """Start the API and workers in one process."""
        return self._keep(Api((*EMBEDQ, "up"), **self._start("up", settings)))

    def serve(self, **settings: object) -> Api:
        """Start the API alone."""
        return self._keep(Api((*EMBEDQ, "serve"), **self._start("serve", settings)))

    def work(self, **settings: object) -> Process:
        """Start workers alone, and wait until they run."""
        process = self.try_to("work", **settings)
        process.heard("started")
        return process

    def try_to(self, *command: str, **settings: object) -> Process:
        """Start a command that may end at once."""
        return self._keep(Process((*EMBEDQ, *command), **self._start(command[0], settings)))

    def within(self, wrapper: Sequence[str], command: str, **settings: object) -> Api:
        """Start a command that serves, by way of another that becomes it."""
        return self._keep(Api((*wrapper, *EMBEDQ, command), **self._start(command, settings)))

    def wrapped(self, wrapper: Sequence[str], command: str, **settings: object) -> Process:
        """Start a command that may end at once, by way of another that becomes it."""
        return self._keep(Process((*wrapper, *EMBEDQ, command), **self._start(command, settings)))

    def run(self, *command: str, **settings: object) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            (*EMBEDQ, *command),
            cwd=self.folder,
            env=self.with_settings(settings),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )

    def freeze(self, process: Process) -> None:
        """Stop a process; on SQLite when it does not write, since nobody else can until that one is over."""

        def is_frozen() -> bool:
            process.stop()
            if not self.is_a_file or self._is_writable():
                return True
            process.go_on()
            return False

        until(is_frozen, "a standstill between two writes")

    def calls(self) -> list[Event]:
        """Read which calls the fake embedder got, from all processes."""
        if not self.calls_file.exists():
            return []
        return [json.loads(line) for line in self.calls_file.read_text().splitlines()]

    def embedded_hashes(self) -> list[str]:
        """List the hash of each text that the fake embedder was asked for, as often as it was."""
        return [name for call in self.calls() for name in call["hashes"]]

    def with_settings(self, settings: dict[str, object]) -> dict[str, str]:
        """Add settings by the names of their variables; None unsets one."""
        given = {name: str(value) for name, value in settings.items() if value is not None}
        kept = {name: value for name, value in self.environment.items() if name not in settings}
        return {**kept, **given}

    def close(self) -> None:
        """End every process that still runs."""
        for process in self.processes:
            if process.popen.poll() is None:
                process.kill()  # a frozen one too
            if isinstance(process, Api):
                process.http.close()

    def _is_writable(self) -> bool:
        database = sqlite3.connect(self.database, timeout=0, isolation_level=None)
        try:
            database.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        finally:
            database.close()
        return True

    def _start(self, name: str, settings: dict[str, object]) -> dict[str, Any]:
        numbered = f"{len(self.processes)}-{name}"
        return {"folder": self.folder, "name": numbered, "environment": self.with_settings(settings)}

    def _keep(self, process: Some) -> Some:
        self.processes.append(process)
        return process
