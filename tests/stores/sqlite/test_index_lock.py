"""Turns at an index."""

import threading

import pytest

from embedq.stores.sqlite.index_lock import Turns


def test_readers_are_inside_together() -> None:
    """Two readers can meet inside: a barrier of both is passed."""
    turns, meeting = Turns(), threading.Barrier(2, timeout=10)

    def read() -> None:
        with turns.reading():
            meeting.wait()

    other = threading.Thread(target=read)
    other.start()
    read()
    other.join(10)

    assert not meeting.broken


def test_a_writer_waits_for_readers_and_goes_before_later_ones() -> None:
    """A writer that waits is inside before a reader who came after it."""
    turns, order = Turns(), list[str]()

    def write() -> None:
        with turns.writing():
            order.append("writer")

    def read() -> None:
        with turns.reading():
            order.append("reader")

    with turns.reading():
        writer = threading.Thread(target=write)
        writer.start()
        while not turns._entry.locked():
            pass
        reader = threading.Thread(target=read)
        reader.start()
        assert order == []
    writer.join(10)
    reader.join(10)

    assert order == ["writer", "reader"]


def test_an_error_inside_lets_the_next_one_in() -> None:
    """Neither a reader nor a writer that fails keeps its turn."""
    turns = Turns()
    for turn in (turns.reading, turns.writing):
        with pytest.raises(KeyError), turn():
            raise KeyError

    with turns.writing():
        inside = True

    assert inside
