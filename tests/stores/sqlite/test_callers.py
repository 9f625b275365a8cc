"""Records are put in the caller's own transaction, on the SQLite connection of a framework."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import django
import pytest
import sqlalchemy
from django.conf import settings
from django.db.utils import ConnectionHandler
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

import embedq


class Undone(Exception):
    """Ends a transaction without a commit."""


@contextmanager
def by_sqlite(path: Path) -> Iterator[Any]:
    connection = sqlite3.connect(path)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


@contextmanager
def by_sqlalchemy(path: Path) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()


@contextmanager
def by_a_session(path: Path) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    try:
        with Session(engine) as session, session.begin():
            yield session
    finally:
        engine.dispose()


@contextmanager
def by_django(path: Path) -> Iterator[Any]:
    if not settings.configured:
        settings.configure()
        django.setup()
    connection = ConnectionHandler({"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": path}})["default"]
    connection.set_autocommit(False, force_begin_transaction_with_broken_autocommit=True)
    try:
        yield connection
        connection.commit()
    except Undone:
        connection.rollback()
        raise
    finally:
        connection.close()


WAYS = [by_sqlite, by_sqlalchemy, by_a_session, by_django]
Way = Callable[[Path], Any]


@pytest.fixture
def eq(tmp_path: Path) -> Iterator[embedq.SyncEmbedQ]:
    with embedq.connect(f"sqlite:///{tmp_path}/notes.db", embedder="fake") as opened:
        opened.declare("notes")
        opened.put("notes", [{"id": "b", "text": "b"}])
        yield opened


def ids(eq: embedq.SyncEmbedQ) -> list[str]:
    return [record.id for record in eq.records("notes").items]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_committed_together(eq: embedq.SyncEmbedQ, tmp_path: Path, way: Way) -> None:
    """A put and a deletion are there when the caller commits, and not before."""
    with way(tmp_path / "notes.db") as connection:
        eq.put("notes", [{"id": "a", "text": "a"}], connection=connection)
        eq.delete("notes", ["b"], connection=connection)
        assert ids(eq) == ["b"]

    assert ids(eq) == ["a"]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_rolled_back_together(eq: embedq.SyncEmbedQ, tmp_path: Path, way: Way) -> None:
    """Nothing of it is left when the caller rolls back."""

    def write_and_give_up() -> None:
        with way(tmp_path / "notes.db") as connection:
            eq.put("notes", [{"id": "a", "text": "a"}], connection=connection)
            eq.delete("notes", ["b"], connection=connection)
            raise Undone

    with pytest.raises(Undone):
        write_and_give_up()

    assert ids(eq) == ["b"]
    assert eq.operator.status().total("pending") == 1


@pytest.mark.parametrize("kind", [AsyncConnection, AsyncSession])
def test_a_connection_for_asyncio_is_refused(eq: embedq.SyncEmbedQ, kind: type) -> None:
    """Its SQLite connection lives on a thread of its own, where nobody else can be."""
    connection = kind.__new__(kind)

    with pytest.raises(TypeError, match=f"must be a sqlite3.Connection.*not {kind.__name__}"):
        eq.put("notes", [{"id": "a", "text": "a"}], connection=connection)


def test_a_file_that_is_gone_is_said_so(tmp_path: Path) -> None:
    """In the words that every other write has for it, whatever the caller's connection is to."""
    other = sqlite3.connect(tmp_path / "b.db")
    with embedq.connect(f"sqlite:///{tmp_path}/a.db", embedder="fake") as eq:
        eq.declare("notes")
        (tmp_path / "a.db").unlink()

        with pytest.raises(embedq.errors.StoreUnusable, match=r"a\.db is gone from its place"):
            eq.put("notes", [{"id": "new", "text": "B"}], connection=other)
    other.close()


@pytest.mark.parametrize("name", ["b.db", ":memory:"])
def test_a_connection_to_another_file_is_refused(tmp_path: Path, name: str) -> None:
    """Its record would be where nobody looks for it; the other file stays as it is, though it has embedq in it too."""
    urls = [f"sqlite:///{tmp_path}/{file}" for file in ("a.db", "b.db")]
    other = sqlite3.connect(name if name == ":memory:" else tmp_path / name)
    with embedq.connect(urls[0], embedder="fake") as a, embedq.connect(urls[1], embedder="fake") as b:
        for eq in (a, b):
            eq.put("notes", [{"id": "old", "text": "A"}])

        with pytest.raises(embedq.errors.Invalid, match="the connection is to"):
            a.put("notes", [{"id": "new", "text": "B"}], connection=other)
        with pytest.raises(embedq.errors.Invalid, match="the connection is to"):
            a.delete("notes", ["old"], connection=other)

        other.commit()
        assert [record.id for record in b.records("notes").items] == ["old"]
    other.close()


@pytest.mark.parametrize("isolation", ["DEFERRED", None])
def test_a_put_begins_with_the_right_to_write(tmp_path: Path, isolation: Any) -> None:  # noqa: ANN401 sqlite3's own words
    """A transaction that reads first is refused at once if a worker commits before it writes."""
    said: list[str] = []
    with embedq.connect(f"sqlite:///{tmp_path}/a.db", embedder="fake") as eq:
        eq.declare("notes")
        connection = sqlite3.connect(tmp_path / "a.db", isolation_level=isolation)
        connection.set_trace_callback(said.append)
        eq.put("notes", [{"id": "a", "text": "A"}], connection=connection)
        begun = [word for word in said if word.startswith(("BEGIN", "SELECT", "SAVEPOINT"))]

        assert begun[0] == "BEGIN IMMEDIATE"
        assert connection.in_transaction is (isolation is not None)
        connection.commit()
        assert eq.get("notes", "a").text == "A"
        connection.close()
