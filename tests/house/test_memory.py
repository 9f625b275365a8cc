"""Temporary files are in memory where that is fit for them, and nobody said otherwise."""

import os
import tempfile
from pathlib import Path

import pytest
from tests import memory


@pytest.fixture(autouse=True)
def _undecided(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Begin as a run does, on a machine whose memory is this folder."""
    monkeypatch.setattr(memory, "MEMORY", tmp_path)
    monkeypatch.setattr(memory, "LEAST_BYTES", 1)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setenv("TMPDIR", "")  # what a test sets is put back
    monkeypatch.delenv("TMPDIR")


def test_temporary_files_are_in_memory(tmp_path: Path) -> None:
    """This process and its children have them there."""
    memory.keep_files_in_memory()

    assert (os.environ["TMPDIR"], tempfile.gettempdir()) == (str(tmp_path), str(tmp_path))


def test_who_says_where_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `TMPDIR` that was set stays."""
    monkeypatch.setenv("TMPDIR", "/var/tmp")  # noqa: S108 nothing is written

    memory.keep_files_in_memory()

    assert os.environ["TMPDIR"] == "/var/tmp"  # noqa: S108 the same


@pytest.mark.parametrize("lack", ["room", "memory"])
def test_without_memory_they_are_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lack: str) -> None:
    """A container may have 64 MB of it, another system none."""
    if lack == "room":
        monkeypatch.setattr(memory, "LEAST_BYTES", 2**60)
    else:
        monkeypatch.setattr(memory, "MEMORY", tmp_path / "none")

    memory.keep_files_in_memory()

    assert "TMPDIR" not in os.environ
