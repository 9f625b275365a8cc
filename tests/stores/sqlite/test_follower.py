"""The follower over a real file, written by plain SQL."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.stores.sqlite.following import SPACE, Process

from embedq.model import Vector
from embedq.stores.sqlite import index_rows
from embedq.stores.sqlite.connection import connect
from embedq.stores.sqlite.schema import migrate

WIDTH = 4
NOTES, MAILS = 1, 2


class Corpus:
    """A database written the way the store writes: every change of a vector is a new row."""

    def __init__(self, path: Path) -> None:
        """Install the schema, a space and two collections."""
        self.path = path
        self.db = connect(path, create=True)
        migrate(self.db, path)
        self.db.execute("INSERT INTO embedq_space (provider, model, dimensions) VALUES ('fake', '', ?)", (WIDTH,))
        for name in ("notes", "mails"):
            self.db.execute(
                "INSERT INTO embedq_collection (name, space, priority, retry, created_at) VALUES (?, 1, 1, '{}', 0)",
                (name,),
            )

    def record(self, collection: int, name: str) -> int:
        """Write a record without a vector; answer with its rid."""
        cursor = self.db.execute(
            "INSERT INTO embedq_record (collection, id, hash, text, attributes, created_at, updated_at)"
            " VALUES (?, ?, x'00', '', '{}', 0, 0)",
            (collection, name),
        )
        return int(cursor.lastrowid or 0)

    def store(self, rid: int, vector: Vector | bytes | None) -> None:
        """Write a record's vector, or its tombstone."""
        blob = vector.tobytes() if isinstance(vector, np.ndarray) else vector
        self.db.execute(
            "INSERT OR REPLACE INTO embedq_vector (record, space, hash, embedding) VALUES (?, 1, randomblob(32), ?)",
            (rid, blob),
        )

    def put(self, collection: int, name: str, vector: Vector) -> int:
        """Write a record with its vector; answer with its rid."""
        rid = self.record(collection, name)
        self.store(rid, vector)
        return rid

    def purge(self, rid: int) -> None:
        """Remove a record and leave the tombstone of its vector."""
        self.db.execute("BEGIN IMMEDIATE")
        self.store(rid, None)
        self.db.execute("DELETE FROM embedq_record WHERE rid = ?", (rid,))
        self.db.execute("COMMIT")

    def forget(self) -> None:
        """Remove all tombstones, and say up to where."""
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute(
            "UPDATE embedq_control SET value = (SELECT max(seq) FROM embedq_vector WHERE embedding IS NULL)"
            " WHERE name = 'forgotten_seq'"
        )
        self.db.execute("DELETE FROM embedq_vector WHERE embedding IS NULL")
        self.db.execute("COMMIT")


@pytest.fixture
def corpus(tmp_path: Path) -> Iterator[Corpus]:
    made = Corpus(tmp_path / "notes.db")
    yield made
    made.db.close()


@pytest.fixture
def process(corpus: Corpus) -> Iterator[Process]:
    made = Process(corpus.path)
    yield made
    made.follower.close()


def toward(*numbers: float) -> Vector:
    return np.array(numbers, dtype=np.float32)


EAST, NORTH = toward(1, 0, 0, 0), toward(0, 1, 0, 0)


def test_each_search_sees_what_was_committed_before_it(corpus: Corpus, process: Process) -> None:
    """New, changed, deleted and returned vectors are each seen by the very next search."""
    first = corpus.put(NOTES, "a", EAST)
    second = corpus.put(NOTES, "b", NORTH)
    assert process.found(NOTES, EAST) == [first, second]

    third = corpus.put(NOTES, "c", EAST)
    assert process.found(NOTES, EAST) == [first, third, second]
    corpus.store(first, NORTH)
    assert process.found(NOTES, EAST) == [third, first, second]
    corpus.store(third, None)
    assert process.found(NOTES, EAST) == [first, second]
    corpus.store(third, EAST)
    assert process.found(NOTES, EAST) == [third, first, second]


def test_collections_in_one_file_do_not_meet(corpus: Corpus, process: Process) -> None:
    """Each collection finds its own vectors only, whether built with them or followed to them."""
    note, mail = corpus.put(NOTES, "a", EAST), corpus.put(MAILS, "a", EAST)
    assert (process.found(NOTES, EAST), process.found(MAILS, EAST)) == ([note], [mail])

    later_note, later_mail = corpus.put(NOTES, "b", EAST), corpus.put(MAILS, "b", EAST)

    assert process.found(NOTES, EAST) == [note, later_note]
    assert process.found(MAILS, EAST) == [mail, later_mail]


def test_spaces_of_one_record_do_not_meet(corpus: Corpus, process: Process) -> None:
    """A record's vector of another space is not found in this one, whether built with it or followed to it."""
    other = "INSERT OR REPLACE INTO embedq_vector (record, space, hash, embedding) VALUES (?, 2, x'00', ?)"
    rid = corpus.put(NOTES, "a", EAST)
    for vector in (NORTH, -NORTH):
        corpus.db.execute(other, (rid, vector.tobytes()))
        assert process.follower.search(NOTES, SPACE, EAST, 5) == [(rid, 1.0)]


def test_a_purged_record_leaves_every_index(corpus: Corpus, process: Process) -> None:
    """A tombstone whose record is gone still takes the vector out of search."""
    note, mail = corpus.put(NOTES, "a", EAST), corpus.put(MAILS, "a", EAST)
    process.found(NOTES, EAST)
    process.found(MAILS, EAST)

    corpus.purge(note)

    assert (process.found(NOTES, EAST), process.found(MAILS, EAST)) == ([], [mail])


def test_only_allowed_records_are_found(corpus: Corpus, process: Process) -> None:
    """A filter holds, also if it names records without a vector."""
    rids = [corpus.put(NOTES, str(number), EAST) for number in range(20)]
    bare = corpus.record(NOTES, "bare")

    hits = process.follower.search(NOTES, SPACE, EAST, 10, np.array([rids[3], rids[17], bare]))

    assert [rid for rid, _ in hits] == [rids[3], rids[17]]
    assert [score for _, score in hits] == pytest.approx([1.0, 1.0])


def test_nothing_to_search_is_an_empty_answer(corpus: Corpus, process: Process) -> None:
    """A space that has not learnt its dimensions and a dropped or unknown collection find nothing."""
    corpus.put(NOTES, "a", EAST)
    assert process.follower.search(NOTES, 99, EAST, 5) == []
    corpus.db.execute("UPDATE embedq_space SET dimensions = NULL")
    assert process.found(NOTES, EAST) == []
    corpus.db.execute("UPDATE embedq_space SET dimensions = ?", (WIDTH,))
    assert process.found(NOTES, EAST) == [1]

    corpus.db.execute("UPDATE embedq_collection SET name = NULL WHERE id = ?", (NOTES,))

    assert process.found(NOTES, EAST) == []
    assert process.acts[-1] == ("dropped", "")


def test_random_changes_are_followed_like_by_hand(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that follow at different moments, one restarting from its file, agree with the table."""
    monkeypatch.setattr(index_rows, "CHUNK", 7)
    monkeypatch.setattr(index_rows, "_RECORDS", 5)
    rng = np.random.default_rng(11)
    rids = [corpus.record(NOTES if number % 3 else MAILS, f"r{number}") for number in range(60)]
    early, restarting = Process(corpus.path), Process(corpus.path)
    for turn in range(120):
        for rid in rng.choice(rids, int(rng.integers(1, 15)), replace=False).tolist():
            corpus.store(rid, rng.standard_normal(WIDTH, dtype=np.float32) if rng.random() < 0.7 else None)
        if turn % 10 == 5:
            restarting.follower.close()
            restarting = Process(corpus.path)
        query, collection = rng.standard_normal(WIDTH, dtype=np.float32), int(rng.integers(1, 3))
        expected = _by_hand(corpus.db, collection, query)

        assert process_hits(early, collection, query) == pytest.approx(expected, abs=1e-5)
        assert process_hits(restarting, collection, query) == pytest.approx(expected, abs=1e-5)
    early.follower.close()
    restarting.follower.close()


def process_hits(process: Process, collection: int, query: Vector) -> dict[int, float]:
    return dict(process.follower.search(collection, SPACE, query, 1000))


def _by_hand(db: sqlite3.Connection, collection: int, query: Vector) -> dict[int, float]:
    rows = db.execute(
        "SELECT v.record, v.embedding FROM embedq_vector v JOIN embedq_record r ON r.rid = v.record"
        " WHERE r.collection = ? AND v.embedding IS NOT NULL",
        (collection,),
    )
    vectors = {rid: np.frombuffer(blob, dtype=np.float32) for rid, blob in rows}
    return {rid: float(row @ query / np.linalg.norm(row) / np.linalg.norm(query)) for rid, row in vectors.items()}


def test_searches_and_writes_at_once_never_miss_a_commit(corpus: Corpus, process: Process) -> None:
    """While another thread commits, a search finds at least all that was acknowledged before it began."""
    done = 0
    missed: list[int] = []

    def search() -> None:
        while (acknowledged := done) < 300:
            if len(process.found(NOTES, EAST, 1000)) < acknowledged:
                missed.append(acknowledged)

    corpus.put(MAILS, "other", EAST)
    searchers = [threading.Thread(target=search) for _ in range(2)]
    for searcher in searchers:
        searcher.start()
    for number in range(300):
        corpus.put(NOTES, str(number), EAST)
        done = number + 1
    for searcher in searchers:
        searcher.join()

    assert missed == []


def test_a_vector_of_another_length_is_left_out_and_reported(corpus: Corpus, process: Process) -> None:
    """One row that cannot be read costs that row, not the search; the old vector of that record is gone too."""
    bad, good = corpus.put(NOTES, "a", EAST), corpus.put(NOTES, "b", EAST)
    process.found(NOTES, EAST)

    corpus.store(bad, b"\x00" * 3)

    assert process.found(NOTES, EAST) == [good]
    assert ("left_out", "wrong length") in process.acts


def test_tombstones_forgotten_while_away_lead_to_a_new_index(corpus: Corpus, process: Process) -> None:
    """A follower that missed a deletion for good does not serve the deleted vector."""
    kept, gone = corpus.put(NOTES, "a", EAST), corpus.put(NOTES, "b", EAST)
    assert process.found(NOTES, EAST) == [kept, gone]

    corpus.store(gone, None)
    corpus.forget()

    assert process.found(NOTES, EAST) == [kept]
    assert [act for act, _ in process.acts] == ["built", "dropped", "built"]


def test_a_poke_follows_before_the_search(corpus: Corpus, process: Process) -> None:
    """A poke brings loaded indexes up to date, and loads none."""
    process.follower.poke()
    assert process.acts == []
    corpus.put(NOTES, "a", EAST)
    index = process.follower.catch_up(NOTES, SPACE)
    assert index is not None
    corpus.put(NOTES, "b", EAST)

    process.follower.poke()

    assert len(index) == 2


def test_dropping_removes_the_saved_file(corpus: Corpus, process: Process) -> None:
    """A dropped collection leaves memory and disk; others stay."""
    corpus.put(NOTES, "a", EAST)
    corpus.put(MAILS, "a", EAST)
    process.found(NOTES, EAST)
    process.found(MAILS, EAST)
    process.follower.save_all()

    process.follower.drop(NOTES)

    assert [path.name for path in process.folder.glob("*.index")] == ["2-1.index"]
