"""A search index saved beside the database, so that the next process need not build it."""

import contextlib
import fcntl
import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from numpy.typing import NDArray

from embedq.model import Vector
from embedq.stores.sqlite import private
from embedq.stores.sqlite.index import FlatIndex
from embedq.stores.sqlite.index_rows import Witness
from embedq.stores.sqlite.index_slots import Rids

_MAGIC = b"embedqix"
_FORMAT = 1
_PREFIX = struct.Struct("<8sI")  # magic, length of the header
_CHECKSUM = struct.Struct("<I")
_LONGEST_HEADER = 1 << 16
_ROWS = 4096  # written per step, so that a change waits for milliseconds only
_PART = 1 << 26  # bytes per read


class Misfit(Exception):
    """Why a saved index cannot be used, or a save did not happen."""


class Busy(Misfit):
    """Why a save was skipped this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a saved index contains, and from which database."""

    identity: int
    collection: int
    space: int
    dimensions: int
    mark: int  # it contains every vector up to this seq
    count: int
    witnesses: tuple[Witness, ...]

    def same_index(self, other: "Header") -> bool:
        """Say whether both are of one collection and space of one database."""
        return _subject(self) == _subject(other)


class IndexFile:
    """One saved index: a header, the rids, the unit vectors, and a checksum over them all."""

    def __init__(self, path: Path) -> None:
        """Set the file's path; it need not exist."""
        self._name = path.name
        self._folder = path.parent
        self._database = Path(str(path.parent).removesuffix(".index"))  # the folder is named after it

    def header(self) -> Header | None:
        """Read the header. None: there is no file. Raise Misfit if it is no index file, or incomplete."""
        with self._reading() as file:
            return _read_header(file)[0] if file else None

    def load(self) -> tuple[Header, FlatIndex]:
        """Read the index. Raise Misfit if there is none, or it is damaged."""
        with self._reading() as file:
            if file is None:
                raise Misfit("there is none")
            header, checksum = _read_header(file)
            return header, _read_index(file, header, checksum)

    def save(self, header: Header, index: FlatIndex, changes: int) -> bool:
        """Replace the file and return True, unless it is already as new.

        Raise Busy if another process is writing it, or if the index changes from `changes` while it is written; Misfit
        if writing fails.
        """
        try:
            private.create_folder(self._folder, self._database)
            with private.opened_folder(self._folder) as folder, self._alone(folder):
                if self._is_as_new_as(header):
                    return False
                self._replace(folder, header, index, changes)
                return True
        except OSError as error:
            raise Misfit(f"it cannot be written: {error.strerror}") from error

    def remove(self) -> None:
        """Remove the file and its companions."""
        with contextlib.suppress(OSError), private.opened_folder(self._folder) as folder:
            for name in (self._name, f"{self._name}.new", f"{self._name}.lock"):
                _unlink(name, folder)

    @contextmanager
    def _reading(self) -> Iterator[BinaryIO | None]:
        try:
            with private.opened_folder(self._folder) as folder:
                handle = os.open(self._name, os.O_RDONLY | private.SAFE, dir_fd=folder)
            with os.fdopen(handle, "rb", buffering=0) as file:
                if not private.is_trusted(handle, self._database):
                    raise Misfit("it is another user's, or anybody could have written it")
                yield file
        except FileNotFoundError:
            yield None
        except OSError as error:
            raise Misfit(f"it cannot be read: {error.strerror}") from error

    @contextmanager
    def _alone(self, folder: int) -> Iterator[None]:
        """Lock out other writers. The kernel frees the lock of a process that dies."""
        lock = private.open_lock(f"{self._name}.lock", self._database, folder)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as busy:
                raise Busy("another process is writing it") from busy
            yield
        finally:
            os.close(lock)

    def _is_as_new_as(self, header: Header) -> bool:
        try:
            there = self.header()
        except Misfit:
            return False
        return there is not None and there.same_index(header) and there.mark >= header.mark

    def _replace(self, folder: int, header: Header, index: FlatIndex, changes: int) -> None:
        """Write a new file, whatever exists there, and rename it into place within the opened folder."""
        new = f"{self._name}.new"
        _unlink(new, folder)
        try:
            with os.fdopen(private.create(new, self._database, folder), "wb", buffering=0) as file:
                _write(file, header, index, changes)
                os.fsync(file.fileno())
            os.replace(new, self._name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            _unlink(new, folder)


def _unlink(name: str, folder: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def _subject(header: Header) -> tuple[int, ...]:
    return header.identity, header.collection, header.space, header.dimensions


def _write(file: Any, header: Header, index: FlatIndex, changes: int) -> None:  # noqa: ANN401 - a raw file
    facts = json.dumps({"format": _FORMAT, **asdict(header)}).encode()
    checksum = _put(file, facts, _put(file, _PREFIX.pack(_MAGIC, len(facts)), 0))
    with _unchanged(index, changes) as (rids, _):
        checksum = _put(file, rids.astype("<i8", copy=False).data, checksum)
    for start in range(0, header.count, _ROWS):
        with _unchanged(index, changes) as (_, rows):
            checksum = _put(file, rows[start : start + _ROWS].astype("<f4", copy=False).data, checksum)
    _put(file, _CHECKSUM.pack(checksum), checksum)


@contextmanager
def _unchanged(index: FlatIndex, changes: int) -> Iterator[tuple[Rids, Vector]]:
    with index.content() as content:
        if index.changes != changes:
            raise Busy("it changed while it was written")
        yield content


def _put(file: Any, data: bytes | memoryview, checksum: int) -> int:  # noqa: ANN401 - a raw file
    rest = memoryview(data).cast("B") if len(data) else memoryview(b"")
    checksum = zlib.crc32(rest, checksum)
    while rest:
        rest = rest[file.write(rest) :]
    return checksum


def _read_header(file: BinaryIO) -> tuple[Header, int]:
    """Read the header and its checksum; the file's size is checked before anything is allocated by it."""
    try:
        prefix = file.read(_PREFIX.size)
        magic, length = _PREFIX.unpack(prefix)
        facts = file.read(min(length, _LONGEST_HEADER))
        header = _parsed(json.loads(facts)) if magic == _MAGIC else None
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise Misfit("it is damaged") from error
    if header is None:
        raise Misfit("it is no index of this version")
    size = _PREFIX.size + length + header.count * (8 + 4 * header.dimensions) + _CHECKSUM.size
    if os.fstat(file.fileno()).st_size != size:
        raise Misfit("it is not whole")
    return header, zlib.crc32(facts, zlib.crc32(prefix))


def _parsed(facts: dict[str, Any]) -> Header | None:
    if facts.pop("format") != _FORMAT:
        return None
    seen = tuple(Witness(*witness) for witness in facts.pop("witnesses"))
    return Header(witnesses=seen, **{name: int(value) for name, value in facts.items()})


def _read_index(file: BinaryIO, header: Header, checksum: int) -> FlatIndex:
    index = FlatIndex.blank(header.dimensions, header.count)
    with index.content() as (rids, rows):
        checksum = _fill(file, rows, _fill(file, rids, checksum))
    if file.read(_CHECKSUM.size) != _CHECKSUM.pack(checksum):
        raise Misfit("it is damaged")
    index.adopt()
    return index


def _fill(file: Any, array: NDArray[Any], checksum: int) -> int:  # noqa: ANN401 - a raw file
    rest = array.data.cast("B") if array.size else memoryview(b"")
    while rest:
        got = file.readinto(rest[:_PART])
        if not got:
            raise Misfit("it is not whole")
        checksum = zlib.crc32(rest[:got], checksum)
        rest = rest[got:]
    return checksum
