"""Whose settings file is read."""

import os
from pathlib import Path

import pytest

from embedq.app import load
from embedq.errors import SettingsError

ANOTHER = 12_345


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file in the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EMBEDQ_CONFIG", raising=False)
    monkeypatch.delenv("EMBEDQ_WORKERS", raising=False)
    (tmp_path / "embedq.toml").write_text("workers = 7\n")
    return tmp_path / "embedq.toml"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_that_another_user_has_put_here_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a shared folder anybody could choose the embedder, and so where texts go; whoever names the file means it."""
    os.chown(file, ANOTHER, ANOTHER)

    with pytest.raises(SettingsError, match=r"^embedq\.toml is another user's, .* EMBEDQ_CONFIG=embedq\.toml if"):
        load()

    monkeypatch.setenv("EMBEDQ_CONFIG", "embedq.toml")
    assert load().workers == 7


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_whoever_has_the_folder_is_read(file: Path) -> None:
    """A service runs in a folder that somebody else has set up for it."""
    os.chown(file, ANOTHER, ANOTHER)
    os.chown(file.parent, ANOTHER, ANOTHER)

    assert load().workers == 7
