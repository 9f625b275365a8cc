"""Saved indexes: what comes back, and what is refused."""

import fcntl
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from embedq.stores.sqlite.index import FlatIndex
from embedq.stores.sqlite.index_file import Busy, Header, IndexFile, Misfit
from embedq.stores.sqlite.index_rows import Witness

WIDTH = 8
COUNT = 5000  # more than one part
HEADER = Header(
    identity=2**61 + 1,
    collection=1,
    space=2,
    dimensions=WIDTH,
    mark=70,
    count=COUNT,
    witnesses=(Witness(70, 5, "AB"), Witness(69, 4, "CD")),
)


@pytest.fixture
def index() -> FlatIndex:
    made = FlatIndex(WIDTH)
    rows = np.random.default_rng(1).standard_normal((COUNT, WIDTH), dtype=np.float32)
    made.apply(np.arange(1, COUNT + 1) * 3, rows, np.empty(0, dtype=np.int64))
    return made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes.db.index" / "1-2.index"


def test_what_is_saved_comes_back(index: FlatIndex, path: Path) -> None:
    """A loaded index has the header, the records and the answers of the one that was saved."""
    query = np.ones(WIDTH, dtype=np.float32)

    written = IndexFile(path).save(HEADER, index, index.changes)
    header, loaded = IndexFile(path).load()

    assert written
    assert header == HEADER
    assert [part.tolist() for part in loaded.search(query, 50)] == [part.tolist() for part in index.search(query, 50)]


def test_a_loaded_index_can_change(index: FlatIndex, path: Path) -> None:
    """A loaded index takes new vectors, overwrites and removals like any other."""
    IndexFile(path).save(HEADER, index, index.changes)
    _, loaded = IndexFile(path).load()
    query = np.ones(WIDTH, dtype=np.float32)

    loaded.apply(np.array([3, 10**6]), np.stack([query, query]), np.array([6]))

    assert len(loaded) == COUNT
    assert loaded.search(query, 2)[0].tolist() == [3, 10**6]
    assert loaded.search(query, 1, np.array([6]))[0].tolist() == []


def test_an_empty_index_comes_back_empty(path: Path) -> None:
    """A collection whose vectors are all gone is saved and loaded too."""
    IndexFile(path).save(replace(HEADER, count=0), FlatIndex(WIDTH), 0)

    assert len(IndexFile(path).load()[1]) == 0


def test_nothing_saved_is_no_header(path: Path) -> None:
    """A file that was never written is not a damaged one."""
    assert IndexFile(path).header() is None


def test_a_flipped_bit_anywhere_is_refused(index: FlatIndex, path: Path) -> None:
    """Whichever byte is damaged, the index is not used."""
    IndexFile(path).save(HEADER, index, index.changes)
    whole = path.read_bytes()
    places = [*range(0, 300, 7), *np.random.default_rng(2).integers(300, len(whole), 40).tolist(), len(whole) - 1]
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x01]) + whole[place + 1 :])

        with pytest.raises(Misfit):
            IndexFile(path).load()


def test_a_file_cut_short_or_too_long_is_refused(index: FlatIndex, path: Path) -> None:
    """A truncated index is refused by its size, before memory is taken for it."""
    IndexFile(path).save(HEADER, index, index.changes)
    whole = path.read_bytes()
    for data in (b"", whole[:5], whole[:40], whole[: len(whole) // 2], whole[:-1], whole + b"x"):
        path.write_bytes(data)

        with pytest.raises(Misfit):
            IndexFile(path).header()


@pytest.mark.parametrize(
    "data", [b"embedqix\x02\x00\x00\x00[]", b"embedqix\x02\x00\x00\x00{}", b"SQLite format 3\x00" * 9]
)
def test_another_kind_of_file_is_refused(path: Path, data: bytes) -> None:
    """A file that is no index, or whose header is none, is refused with a reason instead of an error."""
    path.parent.mkdir()
    path.write_bytes(data)

    with pytest.raises(Misfit):
        IndexFile(path).load()


def test_something_that_cannot_be_read_is_refused(path: Path) -> None:
    """A folder in the file's place is a reason, not a crash."""
    path.mkdir(parents=True)

    with pytest.raises(Misfit, match="cannot be read"):
        IndexFile(path).load()


def test_a_second_writer_leaves_the_file_to_the_first(index: FlatIndex, path: Path) -> None:
    """While somebody holds the lock, a save is skipped and nothing is written."""
    path.parent.mkdir()
    with path.with_name("1-2.index.lock").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        with pytest.raises(Busy):
            IndexFile(path).save(HEADER, index, index.changes)

    assert not path.exists()


def test_an_index_that_moved_on_is_not_saved(index: FlatIndex, path: Path) -> None:
    """A change since the mark was read leaves the saved file as it was, and no half-written one."""
    IndexFile(path).save(HEADER, index, index.changes)
    before, changes = path.read_bytes(), index.changes
    index.apply(np.array([3]), np.ones((1, WIDTH), dtype=np.float32), np.empty(0, dtype=np.int64))

    with pytest.raises(Busy):
        IndexFile(path).save(replace(HEADER, mark=71), index, changes)

    assert path.read_bytes() == before
    assert sorted(item.name for item in path.parent.iterdir()) == ["1-2.index", "1-2.index.lock"]


def test_an_older_index_does_not_replace_a_newer_one(index: FlatIndex, path: Path) -> None:
    """Of two processes, the one that is behind leaves the file alone; another database's file is replaced."""
    IndexFile(path).save(HEADER, index, index.changes)

    older = IndexFile(path).save(replace(HEADER, mark=60), index, index.changes)
    other = IndexFile(path).save(replace(HEADER, mark=60, identity=7), index, index.changes)

    assert (older, other) == (False, True)


def test_a_disk_that_refuses_is_a_reason(index: FlatIndex, tmp_path: Path) -> None:
    """Where the folder cannot be made, saving says why."""
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(Misfit, match="cannot be written"):
        IndexFile(tmp_path / "file" / "1-2.index").save(HEADER, index, index.changes)


def test_removing_leaves_nothing(index: FlatIndex, path: Path) -> None:
    """Remove takes the file and its lock away, and may be repeated."""
    IndexFile(path).save(HEADER, index, index.changes)

    IndexFile(path).remove()
    IndexFile(path).remove()

    assert list(path.parent.iterdir()) == []
