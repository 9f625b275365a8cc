"""Opening without a block, and what is left of it afterwards."""

import asyncio
import threading
from pathlib import Path

import pytest
from tests.unit.leftovers import open_files, our_threads, run, url_of

import embedq
from embedq.errors import SettingsError, StoreError
from embedq.model import EmbeddingStatus
from embedq.stores.sqlite import file
from embedq.stores.sqlite.file import install


async def test_closing_does_what_the_end_of_a_block_does(tmp_path: Path) -> None:
    """Workers, threads and files are gone, and the jobs' worker has left the registry."""
    eq = await embedq.open(url_of(tmp_path), embedder="fake", workers=1)
    await eq.put("notes", [{"id": "a", "text": "x"}])
    assert await eq.wait("notes", ["a"], timeout=60) == {"a": EmbeddingStatus.EMBEDDED}

    await eq.close()

    assert our_threads() == []
    assert open_files(tmp_path) == []
    async with embedq.open(url_of(tmp_path), embedder="fake") as again:
        assert not any(worker.alive for worker in await again.operator.workers())


async def test_closing_twice_is_closing_once(tmp_path: Path) -> None:
    """Also within the block, whose end then has nothing to do."""
    async with embedq.open(url_of(tmp_path), embedder="fake") as eq:
        await eq.close()
        await eq.close()


async def test_what_is_used_after_the_end_is_refused(tmp_path: Path) -> None:
    """Each side of it says that it is closed, whatever is cached."""
    eq = await embedq.open(url_of(tmp_path), embedder="fake")
    await eq.put("notes", [{"id": "a", "text": "x"}])
    await eq.embed(["x"], collection="notes")
    await eq.close()

    for act in (
        lambda: eq.put("notes", [{"id": "b", "text": "x"}]),
        lambda: eq.search("notes", "x"),
        lambda: eq.embed(["x"], collection="notes"),
        lambda: eq.embed(["x"]),
        eq.operator.status,
    ):
        with pytest.raises(StoreError, match="closed: open it again"):
            await act()


async def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    """A worker's embedder without its key is found when the file is open already."""
    with pytest.raises(SettingsError, match="OPENAI_API_KEY"):
        await embedq.open(url_of(tmp_path), embedder="openai:text-embedding-3-small", workers=1)

    assert our_threads() == []
    assert open_files(tmp_path) == []


async def test_a_start_that_is_cancelled_leaves_nothing_open(tmp_path: Path) -> None:
    """As by a timeout of the caller's."""
    starting = asyncio.ensure_future(_opened(tmp_path))
    await asyncio.sleep(0)
    starting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await starting
    assert [task for task in asyncio.all_tasks() if task.get_name() == "embedq-open"] == []
    assert our_threads() == []
    assert open_files(tmp_path) == []


async def test_a_file_that_is_being_opened_is_closed_when_its_caller_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that opens it cannot be stopped: what it has opened is closed after it."""
    entered, going_on = threading.Event(), threading.Event()

    def slow(path: Path) -> None:
        entered.set()
        going_on.wait(60)
        install(path)

    monkeypatch.setattr(file, "install", slow)
    starting = asyncio.ensure_future(_opened(tmp_path))
    await asyncio.to_thread(entered.wait)
    starting.cancel()
    await asyncio.sleep(0)
    going_on.set()

    with pytest.raises(asyncio.CancelledError):
        await starting
    await asyncio.get_running_loop().shutdown_default_executor()
    assert our_threads() == []
    assert open_files(tmp_path) == []


async def _opened(folder: Path) -> embedq.EmbedQ:
    return await embedq.open(url_of(folder), embedder="fake")


def test_what_nobody_closes_is_closed_by_the_loop(tmp_path: Path) -> None:
    """A program that forgets to close ends at once, without a word, and its worker has left."""
    done = run(
        """
import asyncio
import threading
async def main():
    eq = await embedq.open(URL, workers=1)
    await eq.put("notes", [LOOM])
asyncio.run(main())
""",
        tmp_path,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with embedq.connect(url_of(tmp_path), embedder="fake") as eq:
        assert not any(worker.alive for worker in eq.operator.workers())
