"""The client over a real database: what applications can rely on."""

import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

import embedq
from embedq.errors import Conflict, Invalid, NotFound, SettingsError, TooLarge
from embedq.model import EmbeddingStatus, Priority, WorkerId, WorkerInfo
from embedq.policy import texts
from embedq.stores.sqlite import SqliteStore, putting
from embedq.upkeep import HostLiveness


@pytest.fixture
async def eq(tmp_path: Path) -> AsyncIterator[embedq.EmbedQ]:
    async with embedq.open(f"sqlite:///{tmp_path}/notes.db", embedder="fake") as opened:
        yield opened


@pytest.fixture
async def working(tmp_path: Path) -> AsyncIterator[embedq.EmbedQ]:
    async with embedq.open(f"sqlite:///{tmp_path}/notes.db", embedder="fake", workers=1, poll_seconds=0.1) as opened:
        yield opened


async def test_a_record_is_written_embedded_and_found(working: embedq.EmbedQ) -> None:
    """The whole way: put, wait, search."""
    [receipt] = await working.put("notes", [{"id": "n1", "text": "Call Ada about the loom"}])
    assert receipt.embedding_status is EmbeddingStatus.PENDING

    statuses = await working.wait("notes", ["n1"], timeout=30)
    answer = await working.search("notes", "Call Ada about the loom", k=5, mode="semantic")

    assert statuses == {"n1": EmbeddingStatus.EMBEDDED}
    assert [hit.id for hit in answer.hits] == ["n1"]
    assert answer.hits[0].score == pytest.approx(1.0, abs=1e-5)
    assert answer.freshness.coverage == 1.0


async def test_the_first_put_declares_the_collection(eq: embedq.EmbedQ) -> None:
    """An undeclared collection comes to be with the defaults of the settings."""
    await eq.put("notes", [{"id": "a", "text": "x"}])

    found = await eq.collection("notes")

    assert found.declaration.text_from is None
    assert str(found.declaration.embedder) == "fake"
    assert [one.declaration.name for one in await eq.collections()] == ["notes"]


async def test_a_put_is_judged_once_and_its_collection_looked_up_once(
    eq: embedq.EmbedQ, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On its whole way to the database; the client's own list of collections is not asked for."""
    await eq.put("notes", [{"id": "a", "text": "x"}])
    judged, looked_up, listed = list[object](), list[str](), list[object]()
    check, find, collections = texts.check_attributes, putting.find, SqliteStore.collections
    monkeypatch.setattr(texts, "check_attributes", lambda *given: (judged.append(given), check(*given)))
    monkeypatch.setattr(putting, "find", lambda db, name: (looked_up.append(name), find(db, name))[1])
    monkeypatch.setattr(SqliteStore, "collections", lambda store: (listed.append(store), collections(store))[1])

    await eq.put("notes", [{"id": str(n), "text": "y", "attributes": {"n": n}} for n in range(3)])

    assert (len(judged), looked_up, listed) == (3, ["notes"], [])


async def test_strict_refuses_an_undeclared_collection(tmp_path: Path) -> None:
    """With strict settings a typing slip in a name makes no collection, and nobody is told to put into it."""
    url = f"sqlite:///{tmp_path}/notes.db"
    async with embedq.open(url, embedder="fake", strict=True, retention_days=14) as eq:
        for act in (eq.put("nots", [{"id": "a", "text": "x"}]), eq.search("nots", "x")):
            with pytest.raises(NotFound, match="declare it first") as caught:
                await act
            assert "put a first record" not in str(caught.value)
        await eq.declare("notes")
        assert await eq.put("notes", [{"id": "a", "text": "x"}])


async def test_unknown_collections_are_not_found(eq: embedq.EmbedQ) -> None:
    """Reading, listing, searching and deleting need a collection that is there."""
    for act in (
        eq.get("nope", "a"),
        eq.records("nope"),
        eq.search("nope", "x"),
        eq.delete("nope", ["a"]),
        eq.patch("nope", "a", {"text": "x"}),
        eq.regenerate("nope", "a"),
        eq.wait("nope", ["a"], timeout=1),
        eq.drop("nope", confirm="nope"),
    ):
        with pytest.raises(NotFound):
            await act
    assert await eq.collections() == []


async def test_a_batch_with_a_bad_record_stores_none(eq: embedq.EmbedQ) -> None:
    """All or none, and the bad ones are named, those without a text too."""
    with pytest.raises(Invalid) as refusal:
        await eq.put("notes", [{"id": "a", "text": "fine"}, {"id": "b", "text": " "}])

    assert set(refusal.value.problems) == {1}
    assert await eq.collections() == []


async def test_check_refuses_what_put_would(eq: embedq.EmbedQ) -> None:
    """A file can be looked through before anything is touched."""
    with pytest.raises(Invalid) as refusal:
        await eq.check("notes", [{"id": "a", "text": "fine"}, {"id": "b"}])

    assert set(refusal.value.problems) == {1}
    assert await eq.collections() == []


async def test_the_limit_of_texts_is_a_setting(tmp_path: Path) -> None:
    """A longer text is refused with what to do."""
    async with embedq.open(f"sqlite:///{tmp_path}/notes.db", embedder="fake", max_text_bytes=10) as eq:
        with pytest.raises((Invalid, TooLarge), match="EMBEDQ_MAX_TEXT_BYTES"):
            await eq.put("notes", [{"id": "a", "text": "x" * 11}])


async def test_a_text_made_from_attributes_has_the_same_bound(tmp_path: Path) -> None:
    """Nobody has seen it before the store makes it, so it is measured there: in a put and in a change."""
    async with embedq.open(f"sqlite:///{tmp_path}/notes.db", embedder="fake", max_text_bytes=10) as eq:
        await eq.declare("notes", text_from=["title", "body"])
        await eq.put("notes", [{"id": "a", "attributes": {"title": "12345", "body": "6789"}}])
        for act in (
            eq.put("notes", [{"id": "b", "attributes": {"title": "12345", "body": "67890"}}]),
            eq.patch("notes", "a", {"attributes": {"body": "67890"}}),
        ):
            with pytest.raises(Invalid, match="EMBEDQ_MAX_TEXT_BYTES"):
                await act


async def test_records_are_read_changed_and_deleted(eq: embedq.EmbedQ) -> None:
    """Ids of any kind work, and a deleted record is gone."""
    odd = "a/b c?😀"
    await eq.put("notes", [{"id": odd, "text": "one", "attributes": {"n": 1}, "tenant": "t"}])

    await eq.patch("notes", odd, {"attributes": {"m": 2}, "text": "two"})
    record = await eq.get("notes", odd)
    assert (record.text, record.attributes, record.tenant) == ("two", {"n": 1, "m": 2}, "t")

    assert await eq.delete("notes", [odd]) == [odd]
    with pytest.raises(NotFound):
        await eq.get("notes", odd)


@pytest.mark.parametrize("purge", [False, True])
async def test_a_delete_says_which_ids_existed(eq: embedq.EmbedQ, *, purge: bool) -> None:
    """One absent id is answered like several: with the list of those that existed, and no error."""
    await eq.put("notes", [{"id": "a", "text": "one"}])

    assert await eq.delete("notes", ["gone"], purge=purge) == []
    assert await eq.delete("notes", ["gone", "lost"], purge=purge) == []
    assert await eq.delete("notes", ["gone", "a"], purge=purge) == ["a"]


async def test_lists_have_limits_and_cursors(eq: embedq.EmbedQ) -> None:
    """Pages follow one another without a gap or a repeat."""
    await eq.put("notes", [{"id": f"{n:03}", "text": f"t{n}"} for n in range(25)])

    seen, cursor = [], None
    while True:
        page = await eq.records("notes", status="pending", limit=10, cursor=cursor)
        seen += [record.id for record in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break

    assert sorted(seen) == [f"{n:03}" for n in range(25)]
    for limit in (0, 1001):
        with pytest.raises(Invalid):
            await eq.records("notes", limit=limit)
    with pytest.raises(Invalid):
        await eq.records("notes", status="done")


async def test_a_vector_is_read_only_if_asked_for(working: embedq.EmbedQ) -> None:
    """Vectors are large: a plain read leaves them out."""
    await working.put("notes", [{"id": "a", "text": "x"}])
    await working.wait("notes", ["a"], timeout=30)

    assert (await working.get("notes", "a")).vector is None
    vector = (await working.get("notes", "a", with_vector=True)).vector
    assert vector is not None
    assert vector.shape == (384,)


async def test_enqueue_and_regenerate(working: embedq.EmbedQ) -> None:
    """What has a vector gets no job, unless it is forced."""
    await working.put("notes", [{"id": "a", "text": "x"}])
    await working.wait("notes", ["a"], timeout=30)
    await working.operator.pause()

    assert (await working.enqueue("notes", "a")).embedding_status is EmbeddingStatus.EMBEDDED
    receipt = await working.regenerate("notes", "a")

    assert receipt.job_id is not None
    assert (await working.operator.job(receipt.job_id)).status == "pending"
    with pytest.raises(NotFound):
        await working.enqueue("notes", "gone")


async def test_a_declaration_makes_texts_of_attributes(eq: embedq.EmbedQ) -> None:
    """The text is made in the order that was declared; the same declaration again changes nothing."""
    first = await eq.declare("books", text_from=["title", "about"], priority="high", retry={"max_attempts": 5})
    again = await eq.declare("books", text_from=["title", "about"], priority="high", retry={"max_attempts": 5})
    await eq.put("books", [{"id": "b", "attributes": {"about": "looms", "title": "Notes"}}])

    assert first == again
    assert first.declaration.priority is Priority.HIGH
    assert (await eq.get("books", "b")).text == "Notes\nlooms"
    with pytest.raises(Invalid):
        await eq.put("books", [{"id": "c", "text": "no"}])


async def test_another_embedder_over_records_is_a_conflict(eq: embedq.EmbedQ) -> None:
    """A migration is no declaration; leaving the embedder out keeps the one that is there."""
    await eq.declare("notes", embedder="fake@16")
    await eq.put("notes", [{"id": "a", "text": "x"}])

    with pytest.raises(Conflict):
        await eq.declare("notes", embedder="fake@32")
    kept = await eq.declare("notes", priority="low")

    assert str(kept.declaration.embedder) == "fake@16"
    with pytest.raises(Invalid, match="nonsense"):
        await eq.declare("notes", embedder="nonsense:model")


async def test_a_drop_must_be_confirmed(eq: embedq.EmbedQ) -> None:
    """The name is repeated, or nothing happens."""
    await eq.put("notes", [{"id": "a", "text": "x"}])

    with pytest.raises(Conflict):
        await eq.drop("notes", confirm="note")
    await eq.drop("notes", confirm="notes")

    assert await eq.collections() == []
    assert await eq.put("notes", [{"id": "a", "text": "x"}])  # and it can come back


async def test_a_collection_dropped_elsewhere_comes_back_with_the_next_put(tmp_path: Path) -> None:
    """What is remembered of a collection gives way to the database."""
    url = f"sqlite:///{tmp_path}/notes.db"
    async with embedq.open(url, embedder="fake") as one, embedq.open(url, embedder="fake") as two:
        await one.put("notes", [{"id": "a", "text": "x"}])
        await two.drop("notes", confirm="notes")

        await one.put("notes", [{"id": "b", "text": "y"}])

        assert [record.id for record in (await two.records("notes")).items] == ["b"]


async def test_a_dead_process_is_not_waited_for(eq: embedq.EmbedQ) -> None:
    """A worker whose process is gone from this host is not alive, though it beat a moment ago."""
    await eq.put("notes", [{"id": "a", "text": "x"}])
    gone = replace(HostLiveness().me(), born="0")
    info = WorkerInfo(id=WorkerId("w"), process=gone, version="1", embedder="fake")
    await eq._store.register(info)

    with pytest.raises(TimeoutError, match="no worker is alive"):
        await eq.wait("notes", ["a"], timeout=0.01)


async def test_waiting_in_vain_says_why(eq: embedq.EmbedQ) -> None:
    """No worker, or a pause: the error names it. An unknown id is not waited for."""
    await eq.put("notes", [{"id": "a", "text": "x"}])

    with pytest.raises(TimeoutError, match="no worker is alive"):
        await eq.wait("notes", ["a"], timeout=0.05)
    await eq.operator.pause()
    with pytest.raises(TimeoutError, match="paused"):
        await eq.wait("notes", ["a"], timeout=0)
    with pytest.raises(NotFound):
        await eq.wait("notes", ["a", "gone"], timeout=5)


async def test_a_put_joins_the_callers_transaction(eq: embedq.EmbedQ, tmp_path: Path) -> None:
    """Rolled back with it, or committed with it; the collection must be there before."""
    connection = sqlite3.connect(tmp_path / "notes.db", isolation_level=None)
    with pytest.raises(NotFound):
        await eq.put("notes", [{"id": "a", "text": "x"}], connection=connection)
    await eq.declare("notes")

    connection.execute("BEGIN IMMEDIATE")
    await eq.put("notes", [{"id": "a", "text": "x"}], connection=connection)
    connection.execute("ROLLBACK")
    assert (await eq.records("notes")).items == []

    connection.execute("BEGIN IMMEDIATE")
    await eq.put("notes", [{"id": "a", "text": "x"}], connection=connection)
    connection.execute("COMMIT")

    connection.execute("BEGIN IMMEDIATE")
    assert await eq.delete("notes", ["a"], connection=connection) == ["a"]
    connection.execute("ROLLBACK")
    assert (await eq.get("notes", "a")).id == "a"
    connection.close()
    assert [record.id for record in (await eq.records("notes")).items] == ["a"]


@pytest.mark.parametrize(
    "url",
    [
        "neo4j://host",
        "sqlite://x.db",
        "sqlite:///",
        "sqlite:///:memory:",
        "mysql://x",
        "notes.db",
    ],
)
async def test_other_databases_are_refused(url: str) -> None:
    """A URL that cannot be opened says what can be written, or that it comes later."""
    with pytest.raises(SettingsError, match="EMBEDQ_URL"):
        async with embedq.open(url, embedder="fake"):
            pass


async def test_openai_without_a_key_refuses_to_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never a silent stand-in: the variable is named. A process that only writes needs no key."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    url = f"sqlite:///{tmp_path}/notes.db"

    with pytest.raises(SettingsError, match="OPENAI_API_KEY"):
        async with embedq.open(url, embedder="openai:text-embedding-3-small", workers=1):
            pass
    async with embedq.open(url, embedder="openai:text-embedding-3-small") as eq:
        assert await eq.put("notes", [{"id": "a", "text": "x"}])
