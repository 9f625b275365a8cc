"""Environments that have embedq from its wheel, as pip installs it, and nothing else."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path

from tests.house.pages import ROOT, Programs

OURS = re.compile(r"^(EMBEDQ|EMBED|EMBEDDING|CHL|OPENAI|GEMINI|OLLAMA)_|^PYTHON")
INSTALL_SECONDS = 900
COMMAND_SECONDS = 120
CORE, LOCAL = "", "local"
EXTRAS = (CORE, "faiss", "server", "openai", "ollama", "gemini", "postgres", "neo4j", "mcp", LOCAL)
EVERY = os.environ.get("INSTALLS") == "all"


@dataclass(frozen=True)
class Environment:
    """One environment, and what its commands say in a folder of their own."""

    folder: Path
    extra: str

    @property
    def programs(self) -> Programs:
        """Its Python, and its `embedq`."""
        return Programs(str(self.folder / "bin" / "python"), str(self.folder / "bin" / "embedq"))

    def run(self, place: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `embedq` to its end."""
        return self._run(place, self.programs.embedq, *words, **variables)

    def python(self, place: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run its Python to its end."""
        return self._run(place, self.programs.python, *words, **variables)

    def _run(self, place: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=place,
            env=clean() | variables,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )


def clean() -> dict[str, str]:
    """Keep what is in the environment and none of embedq's."""
    return {name: value for name, value in os.environ.items() if not OURS.match(name)} | {"NO_COLOR": "1"}


def pythons() -> list[str]:
    """Name this Python; with `make test-install` those in PYTHONS, or the oldest and the newest that are found."""
    if not EVERY:
        return [sys.executable]
    if named := os.environ.get("PYTHONS", "").split():
        return named
    found = [path for minor in range(11, 30) if (path := shutil.which(f"python3.{minor}"))]
    return list(dict.fromkeys([found[0], found[-1]])) if found else [sys.executable]


def built(place: Path) -> Path:
    """Build the wheel once for all processes of a test run."""
    with _alone(place):
        if not (found := list(place.glob("*.whl"))):
            _pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", str(place), str(ROOT))
            found = list(place.glob("*.whl"))
    [wheel] = found
    return wheel


def installed(place: Path, wheel: Path, python: str, extra: str) -> Environment:
    """Install the wheel with an extra into a new environment."""
    folder = place / "env"
    subprocess.run([python, "-m", "venv", folder], env=clean(), check=True, timeout=INSTALL_SECONDS)
    named = f"embedq[{extra}] @ {wheel.as_uri()}" if extra else f"embedq @ {wheel.as_uri()}"
    _pip(str(folder / "bin" / "python"), "install", "--no-compile", "-c", str(ROOT / "constraints.txt"), named)
    return Environment(folder, extra)


def _pip(python: str, *words: str) -> None:
    done = subprocess.run(
        [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *words],
        env=clean(),
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@contextmanager
def _alone(place: Path) -> Iterator[None]:
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        flock(lock, LOCK_EX)
        yield
