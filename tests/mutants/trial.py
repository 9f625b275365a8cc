"""Trying mutants: each in a copy of the checkout, by the tests that must notice it and no others."""

import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.mutants.mutant import Mutant

SKIPPED_BY_COPY = shutil.ignore_patterns(".git", ".venv", "build", "dist", ".*_cache", ".hypothesis", "*.db*")
PLUGINS = ("pytest_asyncio.plugin", "pytest_timeout")  # looking for others takes longer than most tests
TEST_SECONDS = 60  # for one test: what takes longer under a mutant is a failure
RUN_SECONDS = 240  # for all tests of a mutant


class Verdict(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"  # each of its tests failed
    SURVIVED = "survived"  # a test passed that should have failed
    BROKEN = "broken"  # its tests could not even begin: it is no mutant, but a wreck
    UNPROVEN = "unproven"  # its tests fail without it, too
    SKIPPED = "skipped"  # its tests need what this machine has not


@dataclass(frozen=True, slots=True)
class Trial:
    """A mutant that was tried."""

    mutant: Mutant
    verdict: Verdict
    seconds: float
    said: str  # by pytest


@dataclass(frozen=True, slots=True)
class _Run:
    """How a run of some tests ended."""

    tests: int
    failures: int
    errors: int
    skipped: int
    said: str

    @property
    def passed(self) -> int:
        return self.tests - self.failures - self.errors - self.skipped


def prove(checkout: Path, mutants: Sequence[Mutant]) -> dict[Mutant, Trial]:
    """Run the tests on the source as it is; answer with those mutants of which they can say nothing."""
    every = dict.fromkeys(test for mutant in mutants for test in mutant.tests)
    run, _ = _run(checkout, list(every))
    if run.tests and run.passed == run.tests:
        return {}
    found = {}
    for mutant in mutants:
        alone, seconds = _run(checkout, mutant.tests)
        if not alone.tests or alone.failures or alone.errors:
            found[mutant] = Trial(mutant, Verdict.UNPROVEN, seconds, alone.said)
        elif alone.skipped:
            found[mutant] = Trial(mutant, Verdict.SKIPPED, seconds, alone.said)
    return found


def attempt(checkout: Path, mutant: Mutant) -> Trial:
    """Break a copy of the source, and see who notices."""
    run, seconds = _run(checkout, mutant.tests, mutant)
    if run.errors or not run.tests:
        verdict = Verdict.BROKEN
    else:
        verdict = Verdict.KILLED if run.failures == run.tests else Verdict.SURVIVED
    return Trial(mutant, verdict, seconds, run.said)


def _run(checkout: Path, tests: Sequence[str], mutant: Mutant | None = None) -> tuple[_Run, float]:
    began = time.monotonic()
    with _copied(checkout) as copy:
        if mutant is not None:
            mutant.apply(copy)
        run = _pytest(copy, tests)
    return run, time.monotonic() - began


@contextmanager
def _copied(checkout: Path) -> Iterator[Path]:
    """Copy a checkout, with a virtual environment that finds the copy's package before everything installed here.

    A path in the environment would not do: some tests start processes with paths of their own.
    """
    with tempfile.TemporaryDirectory(prefix="embedq-mutant-") as folder:
        copy = Path(folder) / "checkout"
        shutil.copytree(checkout, copy, ignore=SKIPPED_BY_COPY)
        venv.create(copy / ".venv", symlinks=True)
        site = Path(sysconfig.get_path("purelib", vars={"base": str(copy / ".venv")}))
        installed = sysconfig.get_path("purelib")
        (site / "mutant.pth").write_text(f"{copy / 'src'}\nimport site; site.addsitedir({installed!r})\n")
        yield copy


def _pytest(copy: Path, tests: Sequence[str]) -> _Run:
    report = copy.parent / "report.xml"
    plugins = [word for name in (*PLUGINS, "no:cacheprovider") for word in ("-p", name)]
    options = [*plugins, "-q", "--no-header", "--tb=line", f"--timeout={TEST_SECONDS}", f"--junitxml={report}"]
    with subprocess.Popen(
        [copy / ".venv" / "bin" / "python", "-m", "pytest", *options, *tests],
        cwd=copy,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=RUN_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with all that its tests have started
            return _Run(len(tests), len(tests), 0, 0, f"no end after {RUN_SECONDS} s")
    return _read(report, said.decode(errors="replace"))


def _read(report: Path, said: str) -> _Run:
    """Read pytest's report; without one, no test was found."""
    if not report.exists():
        return _Run(0, 0, 0, 0, said)
    [suite] = ET.parse(report).getroot().iter("testsuite")  # noqa: S314 written by the pytest that was started here
    tests, failures, errors, skipped = (
        int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")
    )
    return _Run(tests, failures, errors, skipped, said)
