"""The list of mutants does not rot, and the trial of mutants can be trusted."""

from collections import Counter
from pathlib import Path

import pytest
from tests.mutants.mutant import SOURCE, DoesNotApply, Mutant, read
from tests.mutants.run import choose, tried
from tests.mutants.trial import Verdict

ROOT = Path(__file__).parents[2]
SUITES = ROOT / SOURCE / "testing"
MUTANTS = read()
TESTS = """
from pathlib import Path

import pytest
from embedq.sums import double

@pytest.fixture
def two():
    return double(1)

def test_double():
    assert double(2) == 4

def test_begins_with_one():
    assert double(1) == 2

def test_of_a_fixture(two):
    assert two == 2

def test_of_what_was_built():
    assert Path(__file__).parents[1].joinpath("build", "server").exists()
    assert double(2) == 4

def test_fails_anyway():
    assert double(2) == 5

@pytest.mark.skip(reason="no server")
def test_needs_a_server():
    assert double(2) == 4
"""


def name_of(mutant: Mutant) -> str:
    return f"{mutant.file}: {mutant.name}"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a small project with one rule: a double is twice as much."""
    package = tmp_path / SOURCE
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "sums.py").write_text("def double(n):\n    return n * 2\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_sums.py").write_text(TESTS)
    return tmp_path


def broken(*tests: str, was: str = "n * 2", becomes: str = "n ** 2") -> Mutant:
    named = tuple(f"tests/test_sums.py::{test}" for test in tests)
    return Mutant(name=f"{was} is {becomes}", file="sums.py", was=was, becomes=becomes, tests=named)


def verdict_of(checkout: Path, mutant: Mutant) -> Verdict:
    [trial] = tried(checkout, [mutant])
    return trial.verdict


def applies(mutant: Mutant) -> bool:
    source = (ROOT / SOURCE / mutant.file).read_text()
    return source.count(mutant.was) == 1 and mutant.was != mutant.becomes


def exists(test: str) -> bool:
    path, _, name = test.partition("::")
    function = f"def {name.rpartition('::')[2].partition('[')[0]}("
    files = [ROOT / path, *SUITES.rglob("*.py")] if "::Test" in test else [ROOT / path]
    return any(function in file.read_text() for file in files)


def test_mutants_still_apply() -> None:
    """The text that a mutant changes stands in its file once, and it changes it."""
    assert [name_of(mutant) for mutant in MUTANTS if not applies(mutant)] == []


def test_mutants_name_tests_that_exist() -> None:
    """Whoever must catch it is there: in the file that is named, or in a suite that the file inherits."""
    assert [name_of(mutant) for mutant in MUTANTS if not mutant.tests] == []
    assert [test for mutant in MUTANTS for test in mutant.tests if not exists(test)] == []


def test_mutants_have_names_of_their_own() -> None:
    """A report tells them apart by name and file."""
    assert [name for name, count in Counter(map(name_of, MUTANTS)).items() if count > 1] == []


def test_a_mutant_that_a_test_notices_is_killed(checkout: Path) -> None:
    """The test fails under the mutant, and the source that is tried stays as it is."""
    assert verdict_of(checkout, broken("test_double", becomes="n * 3")) is Verdict.KILLED
    assert verdict_of(checkout, broken("test_begins_with_one")) is Verdict.KILLED
    assert (checkout / SOURCE / "sums.py").read_text().endswith("n * 2\n")


def test_what_make_has_built_is_there(checkout: Path) -> None:
    """A test that starts a server from `build/` finds it."""
    (checkout / "build").mkdir()
    (checkout / "build" / "server").touch()

    assert verdict_of(checkout, broken("test_of_what_was_built", becomes="n * 3")) is Verdict.KILLED


def test_a_mutant_that_changes_nothing_survives(checkout: Path) -> None:
    """No test can notice it, and the trial says so."""
    assert verdict_of(checkout, broken("test_double", becomes="2 * n")) is Verdict.SURVIVED


def test_a_mutant_survives_if_one_of_its_tests_passes(checkout: Path) -> None:
    """Each test that is named must notice: two times two is two squared."""
    assert verdict_of(checkout, broken("test_begins_with_one", "test_double")) is Verdict.SURVIVED


def test_a_wreck_is_no_mutant(checkout: Path) -> None:
    """A source that cannot be imported, or a fixture that cannot be made, proves nothing."""
    assert verdict_of(checkout, broken("test_double", becomes="n *")) is Verdict.BROKEN
    assert verdict_of(checkout, broken("test_of_a_fixture", becomes="n.twice")) is Verdict.BROKEN


def test_tests_that_fail_anyway_prove_nothing(checkout: Path) -> None:
    """Tests are run on the source as it is first; the mutants of others are still tried."""
    fails, unknown = broken("test_fails_anyway"), broken("test_that_is_not_there", becomes="n + 2")
    killed = broken("test_double", becomes="n * 3")

    verdicts = {trial.mutant: trial.verdict for trial in tried(checkout, [fails, unknown, killed])}

    assert verdicts == {fails: Verdict.UNPROVEN, unknown: Verdict.UNPROVEN, killed: Verdict.KILLED}


def test_tests_that_are_skipped_prove_nothing(checkout: Path) -> None:
    """Where a server is missing, a mutant is neither killed nor alive."""
    assert verdict_of(checkout, broken("test_needs_a_server")) is Verdict.SKIPPED


def test_a_text_that_is_not_there_once_is_refused(checkout: Path) -> None:
    """A mutant that changes nothing, or two places, is a mistake in the list."""
    for was in ("n * 4", "n"):
        with pytest.raises(DoesNotApply):
            list(tried(checkout, [broken("test_double", was=was)]))


def test_a_seed_always_chooses_the_same() -> None:
    """A sample can be tried again, and another seed tries others."""
    mutants = [broken("test_double", becomes=f"n * {factor}") for factor in range(100)]

    samples = [choose(mutants, sample=5, seed=seed) for seed in ("one", "one", "two")]

    assert samples[0] == samples[1] != samples[2]
    assert len(set(samples[0])) == 5
    assert choose(mutants, sample=1000) == mutants
