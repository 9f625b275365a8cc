"""The server with ICU is there, or it is said what brings it."""

from pathlib import Path

import pytest
from tests.stores.postgres.icu import tree

from embedq.testing.postgres import PostgresUnavailable


def test_what_brings_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where make has not installed it, the reason names the file to make."""
    home = tmp_path / "build" / "postgres-icu"
    monkeypatch.setattr(tree, "HOME", home)

    with pytest.raises(PostgresUnavailable, match=r"run make build/postgres-icu/\.installed"):
        tree.find()
