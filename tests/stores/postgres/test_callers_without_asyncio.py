"""Records are put in the caller's own transaction without asyncio, on the caller's thread."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import django
import psycopg
import pytest
import sqlalchemy
from django.conf import settings
from django.db.utils import ConnectionHandler
from sqlalchemy.orm import Session

import embedq
from embedq.errors import Conflict, NotFound
from embedq.testing.postgres.address import PostgresAddress

LOOM = {"id": "a", "text": "A 🧵", "attributes": {"quote": "'\""}, "tenant": "t"}


class Undone(Exception):
    """Ends a transaction without a commit."""


@contextmanager
def by_psycopg(url: str) -> Iterator[Any]:
    with psycopg.connect(url) as connection:
        yield connection


@contextmanager
def by_sqlalchemy(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as connection:
        yield connection
    engine.dispose()


@contextmanager
def by_a_session(url: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with Session(engine) as session, session.begin():
        yield session
    engine.dispose()


@contextmanager
def by_django(url: str) -> Iterator[Any]:
    if not settings.configured:
        settings.configure()
        django.setup()
    at = psycopg.conninfo.conninfo_to_dict(url)
    facts = {"ENGINE": "django.db.backends.postgresql", "NAME": at["dbname"], "USER": at["user"], "HOST": at["host"]}
    connections = ConnectionHandler({"default": facts | {"PORT": str(at["port"]), "PASSWORD": at.get("password", "")}})
    connection = connections["default"]
    try:
        with atomic(connection):
            yield connection
    finally:
        connection.close()


@contextmanager
def atomic(connection: Any) -> Iterator[None]:  # noqa: ANN401 a framework's own
    """What `transaction.atomic` does, for a connection of no alias."""
    connection.set_autocommit(False)
    try:
        yield
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


WAYS = [by_psycopg, by_sqlalchemy, by_a_session, by_django]
Way = Callable[[str], Any]


@pytest.fixture
def eq(postgres_url: str) -> Iterator[embedq.SyncEmbedQ]:
    with embedq.connect(postgres_url, embedder="fake") as opened:
        opened.declare("notes")
        yield opened


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_committed_together(eq: embedq.SyncEmbedQ, postgres_url: str, way: Way) -> None:
    """The record and its job are there when the caller commits, and not before."""
    with way(postgres_url) as connection:
        [receipt] = eq.put("notes", [LOOM], connection=connection)
        assert eq.records("notes").items == []

    found = eq.get("notes", "a")
    assert (found.text, found.attributes, found.tenant) == (LOOM["text"], LOOM["attributes"], "t")
    assert receipt.job_id == found.job_id


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_rolled_back_together(eq: embedq.SyncEmbedQ, postgres_url: str, way: Way) -> None:
    """Nothing of a put or a deletion is left when the caller rolls back."""
    eq.put("notes", [{"id": "b", "text": "b"}])

    def write_and_give_up() -> None:
        with way(postgres_url) as connection:
            eq.put("notes", [LOOM], connection=connection)
            assert eq.delete("notes", ["b"], connection=connection) == ["b"]
            raise Undone

    with pytest.raises(Undone):
        write_and_give_up()

    assert [record.id for record in eq.records("notes").items] == ["b"]
    assert eq.operator.status().total("pending") == 1


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_refusal_leaves_the_callers_transaction_alive(eq: embedq.SyncEmbedQ, postgres_url: str, way: Way) -> None:
    """The caller may go on after a record that is refused."""
    eq.put("notes", [LOOM])

    with way(postgres_url) as connection:
        with pytest.raises(Conflict):
            eq.put("notes", [LOOM | {"tenant": "other"}], connection=connection)
        eq.put("notes", [{"id": "b", "text": "b"}], connection=connection)

    assert len(eq.records("notes").items) == 2


def test_the_connection_is_used_on_the_callers_thread(eq: embedq.SyncEmbedQ, postgres_url: str) -> None:
    """Whatever thread embedq itself works on."""
    used: list[threading.Thread] = []

    class Noticed(psycopg.Connection[Any]):
        def cursor(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 the driver's own
            used.append(threading.current_thread())
            return super().cursor(*args, **kwargs)

    with Noticed.connect(postgres_url) as connection:
        eq.put("notes", [LOOM], connection=connection)

    assert used == [threading.current_thread()]


async def test_a_connection_for_asyncio_is_refused(eq: embedq.SyncEmbedQ, postgres_url: str) -> None:
    """Its loop is the caller's: to wait for it here would be to wait for ever."""
    for connect in (asyncpg.connect, psycopg.AsyncConnection.connect):
        connection = await connect(postgres_url)
        with pytest.raises(TypeError, match="a connection for asyncio cannot be used here"):
            eq.put("notes", [LOOM], connection=connection)
        await connection.close()


def test_workers_are_woken_by_the_callers_commit(postgres_url: str) -> None:
    """Long before they would look by themselves."""
    with embedq.connect(postgres_url, embedder="fake", workers=1, poll_seconds=60) as eq:
        eq.declare("notes")
        with by_psycopg(postgres_url) as connection:
            eq.put("notes", [LOOM], connection=connection)

        assert set(eq.wait("notes", ["a"], timeout=30).values()) == {"embedded"}


@pytest.fixture
def other_url(postgres_url: str, postgres_server: PostgresAddress, postgres_template: str) -> Iterator[str]:
    """Make a second database."""
    name = f"{postgres_url.rpartition('/')[2]}_other"
    yield postgres_server.create_database(name, template=postgres_template)
    postgres_server.drop_database(name)


def test_a_connection_to_another_database_is_refused(postgres_url: str, other_url: str) -> None:
    """Also if that has the same collection and records: they stay as they are."""
    with embedq.connect(postgres_url, embedder="fake") as a, embedq.connect(other_url, embedder="fake") as b:
        for eq in (a, b):
            eq.put("notes", [{"id": "old", "text": "A"}])
        with psycopg.connect(other_url) as connection:
            with pytest.raises(NotFound, match="the same database"):
                a.put("notes", [{"id": "new", "text": "B"}], connection=connection)
            with pytest.raises(NotFound, match="the same database"):
                a.delete("notes", ["old"], connection=connection)

        assert [record.id for record in b.records("notes").items] == ["old"]
