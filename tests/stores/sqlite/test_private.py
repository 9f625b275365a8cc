"""Who may open what lies beside the database, and what is never followed."""

import os
import stat
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from embedq.errors import StoreUnusable
from embedq.model import Ask, Declaration, Done, EmbedderName, NewRecord, Query, RecordId, WorkerId
from embedq.stores.sqlite import SqliteStore
from embedq.stores.sqlite.index import FlatIndex
from embedq.stores.sqlite.index_file import Header, IndexFile, Misfit

HEADER = Header(identity=1, collection=1, space=1, dimensions=2, mark=1, count=1, witnesses=())


@pytest.fixture(autouse=True)
def _loose() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def index() -> FlatIndex:
    made = FlatIndex(2)
    made.apply(np.array([1]), np.ones((1, 2), dtype=np.float32), np.empty(0, dtype=np.int64))
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A saved index's path; its folder is made by saving."""
    return tmp_path / "notes.db.index" / "1-1.index"


def modes(folder: Path) -> dict[str, int]:
    """List the rights of all that lies in a folder."""
    return {str(item.relative_to(folder)): stat.S_IMODE(item.lstat().st_mode) for item in sorted(folder.rglob("*"))}


async def fill(path: Path) -> None:
    """Open a database, write, search and close, so that every file that there can be has been made."""
    store = await SqliteStore.open(path)
    await store.declare(Declaration(name="notes", embedder=EmbedderName(provider="fake", model="")))
    await store.put("notes", [NewRecord(id=RecordId("a"), text="a secret")])
    [space] = await store.spaces()
    ask = Ask(worker=WorkerId("w"), spaces=[space.id], limit=1, span=timedelta(minutes=1))
    await store.learn(space.id, 2)
    await store.settle([Done(lease, np.ones(2, np.float32)) for lease in (await store.lease(ask)).leases])
    await store.search_vector("notes", np.ones(2, np.float32), Query(k=1))
    seen = modes(path.parent)
    assert {"notes.db", "notes.db-wal", "notes.db-shm", "notes.db.lock"} <= seen.keys()
    assert all(mode == seen["notes.db"] for name, mode in seen.items() if not name.startswith("notes.db.index"))
    await store.close()


async def test_a_new_database_is_its_owners_alone(tmp_path: Path) -> None:
    """With the loosest umask, database, WAL, locks and saved index can be opened by nobody else."""
    await fill(tmp_path / "notes.db")

    made = modes(tmp_path)
    assert made.pop("notes.db.index") == 0o700
    assert any(name.endswith(".index") for name in made)
    assert set(made.values()) == {0o600}


async def test_a_shared_database_stays_shared(tmp_path: Path) -> None:
    """What the operator gave a database is kept, and what is made beside it can be used by the same people."""
    os.umask(0o077)
    (tmp_path / "notes.db").touch()
    (tmp_path / "notes.db").chmod(0o660)

    await fill(tmp_path / "notes.db")

    made = modes(tmp_path)
    assert made.pop("notes.db.index") == 0o770
    assert set(made.values()) == {0o660}


async def test_a_database_behind_a_link_is_its_owners_alone(tmp_path: Path) -> None:
    """An operator may link to another disk; the file that is made there is private too."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "notes.db").symlink_to(tmp_path / "disk" / "real.db")

    await (await SqliteStore.open(tmp_path / "notes.db")).close()

    assert modes(tmp_path / "disk")["real.db"] == 0o600


async def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    """Nothing is made or touched where somebody's link points."""
    (tmp_path / "notes.db.lock").symlink_to(tmp_path / "target")

    with pytest.raises(StoreUnusable, match=r"notes.db.lock cannot be opened"):
        await SqliteStore.open(tmp_path / "notes.db")

    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize("name", ["1-1.index.new", "1-1.index"])
def test_saving_replaces_a_link_and_writes_not_through_it(index: FlatIndex, path: Path, name: str) -> None:
    """What a link points to stays as it was; the saved index is a file of its own."""
    target = path.parents[1] / "target"
    target.write_text("precious")
    path.parent.mkdir()
    (path.parent / name).symlink_to(target)

    assert IndexFile(path).save(HEADER, index, index.changes)

    assert target.read_text() == "precious"
    assert not path.is_symlink()
    assert len(IndexFile(path).load()[1]) == 1


def test_a_lock_of_an_index_that_is_a_link_stops_the_save(index: FlatIndex, path: Path) -> None:
    """The save does not happen, and nothing is made where the link points."""
    path.parent.mkdir()
    path.with_name("1-1.index.lock").symlink_to(path.parents[1] / "target")

    with pytest.raises(Misfit):
        IndexFile(path).save(HEADER, index, index.changes)

    assert not (path.parents[1] / "target").exists()


def test_a_folder_that_is_a_link_is_neither_written_nor_read(index: FlatIndex, path: Path) -> None:
    """Not even the folder of the indexes is followed elsewhere, and removing takes nothing away there."""
    elsewhere = path.parents[1] / "elsewhere"
    elsewhere.mkdir()
    path.parent.symlink_to(elsewhere)

    with pytest.raises(Misfit):
        IndexFile(path).save(HEADER, index, index.changes)
    assert list(elsewhere.iterdir()) == []
    (elsewhere / path.name).write_text("precious")
    with pytest.raises(Misfit):
        IndexFile(path).load()
    IndexFile(path).remove()
    assert (elsewhere / path.name).read_text() == "precious"


def test_a_saved_index_that_is_a_link_or_a_pipe_is_not_read(index: FlatIndex, path: Path) -> None:
    """A good index behind a link is not trusted, and a pipe does not hold anybody up."""
    IndexFile(path).save(HEADER, index, index.changes)
    moved = path.rename(path.parents[1] / "moved")
    path.symlink_to(moved)
    with pytest.raises(Misfit, match="cannot be read"):
        IndexFile(path).load()

    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(Misfit, match="another user's"):
        IndexFile(path).load()


def test_a_saved_index_of_another_user_is_not_read(
    index: FlatIndex, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index that neither we nor the database's owner has written is built anew."""
    IndexFile(path).save(HEADER, index, index.changes)
    if os.geteuid() == 0:
        os.chown(path, 12_345, 12_345)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12_345)

    with pytest.raises(Misfit, match="another user's"):
        IndexFile(path).load()


def test_a_saved_index_that_anybody_may_write_is_not_read(index: FlatIndex, path: Path) -> None:
    """Vectors that a stranger could have put there are not searched."""
    IndexFile(path).save(HEADER, index, index.changes)
    path.chmod(0o666)

    with pytest.raises(Misfit, match="anybody could have written"):
        IndexFile(path).load()
