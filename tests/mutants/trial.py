"""Trying mutants: each in a copy of the checkout, by the tests that must notice it and no others."""

import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.mutants.mutant import Mutant

SKIPPED_BY_COPY = shutil.ignore_patterns(".git", ".venv", "build", "dist", ".*_cache", ".hypothesis", "*.db*")
PLUGINS = ("pytest_asyncio.plugin", "pytest_timeout")  # looking for others takes longer than most tests
TEST_SECONDS = 60  # for one test: what takes longer under a mutant is a failure
LEAST_SECONDS = 120  # for a run of any tests


class Ending(StrEnum):
    """How one case of a test ended."""

    PASSED = "passed"
    FAILED = "failure"
    BROKEN = "error"  # before it had begun, or after it
    SKIPPED = "skipped"


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
    """How a run of some tests ended, case by case."""

    cases: Mapping[str, Ending]
    said: str

    def endings(self, tests: Sequence[str]) -> list[Ending]:
        """Say how the cases of these tests ended; a test without parameters has one."""
        wanted = {_name_in_report(test) for test in tests}
        return [ending for case, ending in self.cases.items() if not wanted.isdisjoint({case, case.partition("[")[0]})]


def prove(checkout: Path, mutants: Sequence[Mutant]) -> dict[Mutant, Trial]:
    """Run the tests on the source as it is; answer with those mutants of which they can say nothing."""
    every = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
    run, seconds = _run(checkout, every)
    if not run.cases and len(mutants) > 1:  # a test that does not exist keeps all the others from running
        return {mutant: trial for one in mutants for mutant, trial in prove(checkout, [one]).items()}
    verdicts = {mutant: _proven(run.endings(mutant.tests)) for mutant in mutants}
    return {mutant: Trial(mutant, verdict, seconds, run.said) for mutant, verdict in verdicts.items() if verdict}


def _proven(endings: Sequence[Ending]) -> Verdict | None:
    """Say why tests prove nothing; None: they do."""
    if not endings or {Ending.FAILED, Ending.BROKEN} & set(endings):
        return Verdict.UNPROVEN
    return Verdict.SKIPPED if Ending.SKIPPED in endings else None


def attempt(checkout: Path, mutant: Mutant) -> Trial:
    """Break a copy of the source, and see who notices."""
    run, seconds = _run(checkout, mutant.tests, mutant)
    endings = set(run.cases.values())
    if not endings or Ending.BROKEN in endings:
        verdict = Verdict.BROKEN
    else:
        verdict = Verdict.KILLED if endings == {Ending.FAILED} else Verdict.SURVIVED
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
        (copy / "build").symlink_to(checkout.absolute() / "build")  # servers that make has put there for tests
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
            said, _ = process.communicate(timeout=LEAST_SECONDS + TEST_SECONDS * len(tests))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with all that its tests have started
            return _Run(dict.fromkeys(map(_name_in_report, tests), Ending.FAILED), "it did not come to an end")
    return _Run(_read(report), said.decode(errors="replace"))


def _read(report: Path) -> dict[str, Ending]:
    """Read pytest's report; without one, no test was found."""
    if not report.exists():
        return {}
    root = ET.parse(report).getroot()  # noqa: S314 written by the pytest that was started here
    return {f"{case.get('classname')}.{case.get('name')}": _ending(case) for case in root.iter("testcase")}


def _ending(case: ET.Element) -> Ending:
    found = {Ending(part.tag) for part in case if part.tag in set(Ending)}
    return next((ending for ending in (Ending.FAILED, Ending.BROKEN, Ending.SKIPPED) if ending in found), Ending.PASSED)


def _name_in_report(test: str) -> str:
    """Name a test as pytest's report does."""
    path, _, names = test.partition("::")
    return f"{path.removesuffix('.py').replace('/', '.')}.{names.replace('::', '.')}"
