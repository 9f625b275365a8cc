"""What happens before an application answers its first request."""

import asyncio
from pathlib import Path

import pytest

from embedq.app import load, start
from embedq.app.application import App
from embedq.model import EmbedderName


async def test_the_model_is_loaded_before_the_first_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside it, its imports would hold the interpreter's lock."""
    done: list[str] = []

    async def warm(app: App, name: EmbedderName) -> None:
        del app, name
        await asyncio.sleep(0.1)
        done.append("loaded")

    monkeypatch.setattr(App, "warm", warm)
    settings = load(url=f"sqlite:///{tmp_path}/notes.db", embedder="fake")

    async with start(settings, serving=True, quiet=True) as app, app.working(0):
        assert done == ["loaded"]
