"""What pip says of an environment that it has just made."""

from pathlib import Path

from tests.install.environments import Environment


def test_pip_finds_nothing_missing(environment: Environment, tmp_path: Path) -> None:
    """Whatever an extra brings has what it needs."""
    checked = environment.python(tmp_path, "-m", "pip", "--disable-pip-version-check", "check")

    assert (checked.returncode, checked.stdout) == (0, "No broken requirements found.\n")
