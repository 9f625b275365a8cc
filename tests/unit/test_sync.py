"""The client without asyncio: from scripts, from threads, inside a running loop, and to its end."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.unit.leftovers import LOOM, SECONDS, open_files, our_threads, run, url_of

import embedq
from embedq.errors import Invalid, NotFound, SettingsError, StoreError, StoreUnusable
from embedq.model import EmbeddingStatus
from embedq.sync.portal import Portal


@pytest.fixture
def eq(tmp_path: Path) -> Iterator[embedq.SyncEmbedQ]:
    with embedq.connect(url_of(tmp_path), embedder="fake") as opened:
        yield opened


def test_a_record_is_written_embedded_and_found(tmp_path: Path) -> None:
    """The whole way without asyncio, and the operator's side of it."""
    with embedq.connect(url_of(tmp_path), embedder="fake", workers=1) as eq:
        eq.put("notes", [LOOM])
        assert eq.wait("notes", ["n1"], timeout=SECONDS) == {"n1": EmbeddingStatus.EMBEDDED}
        answer = eq.search("notes", LOOM["text"], mode="semantic")
        status = eq.operator.status()

    assert [hit.id for hit in answer.hits] == ["n1"]
    assert status.total("completed") == 1


def test_errors_are_those_of_the_async_client(eq: embedq.SyncEmbedQ) -> None:
    """What is refused is refused in the same words, also by tables and operator."""
    with pytest.raises(NotFound, match="no collection 'notes'"):
        eq.get("notes", "n1")
    with pytest.raises(Invalid, match="PostgreSQL"):
        eq.tables.listing()
    with pytest.raises(NotFound, match="no job"):
        eq.operator.job("none")


async def test_it_works_inside_a_running_loop(eq: embedq.SyncEmbedQ) -> None:
    """As in a notebook: the caller's thread runs an event loop of its own."""
    eq.put("notes", [LOOM])

    assert eq.get("notes", "n1").text == LOOM["text"]


def test_threads_share_it(eq: embedq.SyncEmbedQ) -> None:
    """Many threads write and read at once, and each gets its own answers."""
    eq.declare("notes")

    def write(number: int) -> str:
        eq.put("notes", [{"id": str(number), "text": f"text {number}"}])
        return eq.get("notes", str(number)).text

    with ThreadPoolExecutor(8) as threads:
        texts = list(threads.map(write, range(80)))

    assert texts == [f"text {number}" for number in range(80)]


def test_a_put_joins_the_callers_transaction_on_the_callers_thread(eq: embedq.SyncEmbedQ, tmp_path: Path) -> None:
    """A connection that is bound to its thread is rolled back and committed with what embedq wrote on it."""
    eq.declare("notes")
    db = sqlite3.connect(tmp_path / "notes.db", isolation_level=None, check_same_thread=True)

    db.execute("BEGIN IMMEDIATE")
    eq.put("notes", [LOOM], connection=db)
    db.execute("ROLLBACK")
    assert eq.records("notes").items == []

    db.execute("BEGIN IMMEDIATE")
    eq.put("notes", [LOOM], connection=db)
    assert eq.records("notes").items == []
    db.execute("COMMIT")
    assert eq.get("notes", "n1").embedding_status is EmbeddingStatus.PENDING

    db.execute("BEGIN IMMEDIATE")
    assert eq.delete("notes", ["n1"], connection=db) == ["n1"]
    db.execute("COMMIT")
    assert eq.records("notes").items == []
    db.close()


def test_nothing_is_committed_on_a_connection_that_has_begun_nothing(eq: embedq.SyncEmbedQ, tmp_path: Path) -> None:
    """A put begins a transaction where the driver would, and leaves its end to the caller."""
    eq.declare("notes")
    db = sqlite3.connect(tmp_path / "notes.db")

    eq.put("notes", [LOOM], connection=db)
    assert db.in_transaction
    db.rollback()

    assert eq.records("notes").items == []
    eq.put("notes", [LOOM], connection=db)
    db.commit()
    assert [record.id for record in eq.records("notes").items] == ["n1"]
    db.close()


def test_a_connection_keeps_the_rows_its_caller_has_chosen(eq: embedq.SyncEmbedQ, tmp_path: Path) -> None:
    """Rows as dictionaries and texts as bytes are the caller's, and disturb nothing."""
    eq.declare("notes")
    db = sqlite3.connect(tmp_path / "notes.db")
    db.row_factory = lambda cursor, row: dict(zip([name for name, *_ in cursor.description], row, strict=True))
    db.text_factory = bytes

    with db:
        eq.put("notes", [LOOM], connection=db)
        eq.put("notes", [{"id": "n1", "text": "another"}], connection=db)

    assert db.execute("SELECT 'x' AS x").fetchone() == {"x": b"x"}
    assert eq.get("notes", "n1").text == "another"
    db.close()


def test_what_is_no_connection_is_named(eq: embedq.SyncEmbedQ) -> None:
    """The refusal says what a connection may be, and reaches the caller."""
    eq.declare("notes")

    with pytest.raises(TypeError, match=r"sqlite3\.Connection.*not object"):
        eq.put("notes", [LOOM], connection=object())


def test_closing_closes(tmp_path: Path) -> None:
    """Workers, threads and files are gone; a second close does nothing, and use is refused."""
    eq = embedq.connect(url_of(tmp_path), embedder="fake", workers=1)
    eq.put("notes", [LOOM])
    assert our_threads()
    assert open_files(tmp_path)

    eq.close()
    eq.close()

    assert our_threads() == []
    assert open_files(tmp_path) == []
    with pytest.raises(StoreError, match="closed: open it again"):
        eq.search("notes", "loom")


def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    """The error is the caller's, and the thread ends."""
    with pytest.raises(StoreUnusable, match="does not exist"):
        embedq.connect(f"sqlite:///{tmp_path}/none/notes.db", embedder="fake")

    assert our_threads() == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:8400", "https://example.org"])
def test_a_server_is_refused_with_what_to_write(url: str) -> None:
    """The address of a server is no database, and the sentence says so."""
    with pytest.raises(SettingsError, match=r"address of a server.*write sqlite:///"):
        embedq.connect(url)


def test_what_waits_while_it_is_closed_is_told(tmp_path: Path) -> None:
    """A thread in the middle of a call gets an error, and does not wait for ever."""
    eq = embedq.connect(url_of(tmp_path), embedder="fake")
    eq.put("notes", [LOOM])
    with ThreadPoolExecutor(1) as other:
        waiting = other.submit(eq.wait, "notes", ["n1"], timeout=SECONDS)
        while not waiting.running():
            pass
        eq.close()
        with pytest.raises(StoreError, match="closed"):
            waiting.result(SECONDS)


@pytest.mark.timeout(30)
def test_a_call_that_meets_a_close_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its store was open when it looked, and is closed when it begins: an error of ours, and no wait for ever."""
    portal, submit = Portal(), asyncio.run_coroutine_threadsafe
    closer = threading.Thread(target=portal.close)

    def late(*args: Any) -> Any:  # noqa: ANN401 handed on
        closer.start()
        closer.join(0.5)  # it would end by then if nothing held it up
        return submit(*args)

    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", late)

    with pytest.raises(StoreError, match="closed"):
        portal.run(asyncio.sleep, SECONDS)
    closer.join()


@pytest.mark.timeout(30)
def test_its_own_thread_cannot_wait_for_itself(eq: embedq.SyncEmbedQ) -> None:
    """A callback that calls back is refused instead of hanging."""
    eq.put("notes", [LOOM])

    def progress(*_: object) -> None:
        eq.operator.status()

    with pytest.raises(StoreError, match="cannot wait for itself"):
        eq.operator.repair(deep=True, progress=progress)


def test_a_fork_is_refused_and_the_parent_goes_on(tmp_path: Path) -> None:
    """A child that uses its parent's client is told where to open its own; its end closes nothing of the parent's."""
    done = run(
        """
import os, sys
eq = embedq.connect(URL, workers=1)
eq.put("notes", [LOOM])
child = os.fork()
if not child:
    try:
        eq.search("notes", "loom")
    except embedq.errors.StoreError as error:
        print(error, flush=True)
    eq.close()
    sys.exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(eq.wait("notes", ["n1"], timeout=30))
eq.close()
""".replace("import os, sys", "import os, sys, embedq.errors"),
        tmp_path,
    )

    assert (done.returncode, done.stderr) == (0, "")
    refusal, code, statuses = done.stdout.splitlines()
    assert "call embedq.connect after the fork" in refusal
    assert code == "3"
    assert "embedded" in statuses


def test_an_interpreter_that_ends_closes_it(tmp_path: Path) -> None:
    """Without a close there is no hang, no word on stderr, and no job is charged; what was in work is handed back."""
    done = run(
        """
eq = embedq.connect(URL, workers=2, batch_size=2)
eq.put("notes", [{"id": str(number), "text": f"text {number}"} for number in range(1000)])
""",
        tmp_path,
        EMBEDQ_FAKE_FAULTS="latency=0.01",
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    db = sqlite3.connect(tmp_path / "notes.db")
    found = db.execute("SELECT status, attempts, crashes, count(*) FROM embedq_job GROUP BY 1, 2, 3").fetchall()
    db.close()
    with embedq.connect(url_of(tmp_path), embedder="fake") as eq:
        assert eq.operator.status().total("processing") == 0
        assert not any(worker.alive for worker in eq.operator.workers())
    assert {(attempts, crashes) for _, attempts, crashes, _ in found} == {(0, 0)}
    assert sum(count for *_, count in found) == 1000


def test_an_interrupt_ends_the_wait_and_nothing_else(tmp_path: Path) -> None:
    """Ctrl-C while a call waits raises KeyboardInterrupt there; the client can be used further."""
    done = run(
        """
import os, signal, sys, threading, traceback
eq = embedq.connect(URL)
eq.put("notes", [LOOM])
def interrupt():
    main = threading.main_thread().ident
    while "wait_for" not in [frame.f_code.co_name for frame, _ in traceback.walk_stack(sys._current_frames()[main])]:
        pass
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    eq.wait("notes", ["n1"], timeout=60)
except KeyboardInterrupt:
    print("interrupted", eq.get("notes", "n1").id)
eq.close()
""",
        tmp_path,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted n1\n", "")
