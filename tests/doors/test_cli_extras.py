"""Without a library that is an extra, a command says which command installs it."""

import sys
from pathlib import Path

import pytest
from tests.doors.conftest import Shell

PIP = f"{sys.executable} -m pip install"


@pytest.fixture
def without(tmp_path: Path, shell: Shell) -> Shell:
    """A Python that has neither the server's libraries nor the local model's."""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text(
        "import sys\nsys.modules.update(dict.fromkeys(['fastapi', 'prometheus_client', 'onnx', 'onnxruntime']))\n"
    )
    shell.environment |= {"PYTHONPATH": str(hidden)}
    return shell


@pytest.mark.parametrize("command", ["up", "serve"])
def test_a_start_without_a_library_creates_nothing(without: Shell, command: str) -> None:
    """All that is missing is installed by one command, and there is no database yet."""
    said = without.run(command, code=1, EMBEDQ_EMBEDDER="local").stderr

    libraries = "onnxruntime, onnx, fastapi, prometheus_client"
    assert said == f"embedq: {libraries} are missing: run {PIP} 'embedq[local,server]'\n"
    assert [path.name for path in without.folder.iterdir()] == ["hidden"]


def test_only_what_is_missing_is_named(without: Shell) -> None:
    """The fake embedder needs no library, and workers need no server."""
    assert without.run("serve", code=1).stderr.endswith(f"run {PIP} 'embedq[server]'\n")
    said = without.run("work", code=1, EMBEDQ_EMBEDDER="local").stderr
    assert said == f"embedq: onnxruntime, onnx are missing: run {PIP} 'embedq[local]'\n"
