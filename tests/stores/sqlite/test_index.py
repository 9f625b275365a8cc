"""The flat index against the plain arithmetic it stands for."""

import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from embedq.errors import Invalid, SearchUnavailable
from embedq.model import Vector
from embedq.stores.sqlite.index import FlatIndex

WIDTH = 8
NONE = np.empty(0, dtype=np.int64)
NO_ROWS = np.empty((0, WIDTH), dtype=np.float32)

Model = dict[int, Vector]


def ids(*rids: int) -> NDArray[np.int64]:
    return np.array(rids, dtype=np.int64)


def rows(rng: np.random.Generator, count: int) -> Vector:
    return rng.standard_normal((count, WIDTH), dtype=np.float32)


def cosine(one: Vector, other: Vector) -> float:
    lengths = float(np.linalg.norm(one.astype(np.float64)) * np.linalg.norm(other.astype(np.float64)))
    return float(one.astype(np.float64) @ other.astype(np.float64)) / lengths if lengths else 0.0


def by_hand(model: Model, query: Vector, k: int, allowed: set[int] | None) -> list[tuple[int, float]]:
    scores = {rid: cosine(row, query) for rid, row in model.items() if allowed is None or rid in allowed}
    return sorted(scores.items(), key=lambda pair: -pair[1])[:k]


def assert_agrees(index: FlatIndex, model: Model, query: Vector, k: int, allowed: set[int] | None = None) -> None:
    chosen = None if allowed is None else ids(*sorted(allowed))
    rids, scores = index.search(query, k, chosen)
    expected = by_hand(model, query, k, allowed)
    assert len(index) == len(model)
    assert scores.tolist() == pytest.approx([score for _, score in expected], abs=1e-5)
    assert [cosine(model[rid], query) for rid in rids.tolist()] == pytest.approx(scores.tolist(), abs=1e-5)
    assert len(set(rids.tolist())) == len(expected)
    assert allowed is None or set(rids.tolist()) <= allowed


# Numbers close together, on both sides of a page's end, and far away.
RIDS = st.one_of(st.integers(1, 40), st.integers(250, 260), st.sampled_from([70_000, 5_000_000]))
STEP = st.tuples(st.sets(RIDS, max_size=12), st.sets(RIDS, max_size=12))


@settings(max_examples=150, deadline=None)
@given(st.lists(STEP, max_size=12), st.integers(0, 60), st.sets(RIDS, max_size=30), st.integers(0, 2**32 - 1))
def test_any_walk_of_changes_is_searched_like_by_hand(
    steps: list[tuple[set[int], set[int]]], k: int, allowed: set[int], seed: int
) -> None:
    """After adds, overwrites, removals and re-adds in any order, plain and filtered searches find what a scan finds."""
    rng = np.random.default_rng(seed)
    index, model = FlatIndex(WIDTH), Model()
    for stored, gone in steps:
        matrix = rows(rng, len(stored))
        index.apply(ids(*stored), matrix, ids(*gone))
        for rid in gone:
            model.pop(rid, None)
        model.update(zip(stored, matrix, strict=True))

        query = rows(rng, 1)[0]
        assert_agrees(index, model, query, k)
        assert_agrees(index, model, query, k, allowed)


def test_a_zero_vector_scores_zero_and_is_still_found() -> None:
    """A vector without a direction has the cosine 0, and so has everything for a query without one."""
    index = FlatIndex(WIDTH)
    index.apply(ids(1, 2), np.stack([np.zeros(WIDTH), -np.ones(WIDTH)]).astype(np.float32), NONE)

    rids, scores = index.search(np.ones(WIDTH, dtype=np.float32), 5)
    _, none = index.search(np.zeros(WIDTH, dtype=np.float32), 5)

    assert rids.tolist() == [1, 2]
    assert scores.tolist() == pytest.approx([0.0, -1.0])
    assert none.tolist() == [0.0, 0.0]


def test_lengths_at_the_ends_of_single_precision_do_not_matter() -> None:
    """Vectors whose squares leave single precision keep their direction."""
    index = FlatIndex(WIDTH)
    index.apply(ids(1, 2), np.stack([np.full(WIDTH, 1e30), np.full(WIDTH, 1e-30)]).astype(np.float32), NONE)

    _, scores = index.search(np.ones(WIDTH, dtype=np.float32), 2)

    assert scores.tolist() == pytest.approx([1.0, 1.0])


def test_equal_scores_come_in_the_order_of_the_records() -> None:
    """The same search gives the same order, also where the scores do not decide it."""
    index = FlatIndex(WIDTH)
    index.apply(ids(9, 3, 7), np.ones((3, WIDTH), dtype=np.float32), NONE)

    rids, _ = index.search(np.ones(WIDTH, dtype=np.float32), 3)

    assert rids.tolist() == [3, 7, 9]


def test_removing_what_is_not_held_changes_nothing() -> None:
    """Unknown rids in `gone` are no change, so that tombstones may be handed to every index."""
    index = FlatIndex(WIDTH)
    index.apply(ids(1), np.ones((1, WIDTH), dtype=np.float32), NONE)
    before = index.changes

    index.apply(NONE, NO_ROWS, ids(2, 300, 10**12))

    assert (len(index), index.changes) == (1, before)


def test_a_query_of_another_length_is_refused() -> None:
    """A vector of another space is the caller's mistake, said in words."""
    with pytest.raises(Invalid, match="8 numbers"):
        FlatIndex(WIDTH).search(np.ones(3, dtype=np.float32), 1)


def test_without_faiss_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing extra is named with the command that brings it."""
    monkeypatch.setitem(sys.modules, "faiss", None)

    with pytest.raises(SearchUnavailable, match=r"embedq\[faiss\]"):
        FlatIndex(WIDTH)


def test_a_search_beside_changes_sees_each_of_them_whole() -> None:
    """While a batch swaps two groups of records, every search finds one whole group and nothing of the other."""
    index, ones = FlatIndex(WIDTH), np.ones((500, WIDTH), dtype=np.float32)
    groups = (np.arange(1, 501), np.arange(1001, 1501))
    index.apply(groups[0], ones, NONE)
    torn: list[list[int]] = []
    over = threading.Event()

    def search() -> None:
        while not over.is_set():
            rids, _ = index.search(ones[0], 1000)
            if sorted(rids.tolist()) not in (groups[0].tolist(), groups[1].tolist()):
                torn.append(rids.tolist())

    searchers = [threading.Thread(target=search) for _ in range(3)]
    for searcher in searchers:
        searcher.start()
    for turn in range(200):
        index.apply(groups[(turn + 1) % 2], ones, groups[turn % 2])
    over.set()
    for searcher in searchers:
        searcher.join()

    assert torn == []
