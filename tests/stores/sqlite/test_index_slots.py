"""The table of slots."""

import numpy as np

from embedq.stores.sqlite.index_slots import SlotTable


def test_it_answers_like_a_dictionary() -> None:
    """After random places and forgets over sparse numbers, every look-up agrees with a plain dictionary."""
    rng, table, model = np.random.default_rng(7), SlotTable(), dict[int, int]()
    universe = np.unique(rng.integers(1, 200_000, 3000))
    for _ in range(60):
        placed = rng.choice(universe, 200, replace=False)
        slots = rng.integers(0, 10_000, 200)
        table.place(placed, slots)
        model.update(zip(placed.tolist(), slots.tolist(), strict=True))
        gone = rng.choice(np.array(sorted(model)), min(150, len(model)), replace=False)
        table.forget(gone)
        for rid in gone.tolist():
            del model[rid]

        assert table.find(universe).tolist() == [model.get(rid, -1) for rid in universe.tolist()]


def test_a_number_beyond_all_others_is_nowhere() -> None:
    """A rid far beyond the table is looked up without growing it."""
    table = SlotTable()
    table.place(np.array([3]), np.array([0]))

    assert table.find(np.array([3, 4, 2**60])).tolist() == [0, -1, -1]
    assert table._row_of.size < 10


def test_numbers_that_come_and_go_need_no_more_room() -> None:
    """Pages of records long gone are used again, so that churn does not grow the table."""
    table = SlotTable()
    for start in range(1, 1_000_000, 1000):
        rids = np.arange(start, start + 1000)
        table.place(rids, np.arange(1000))
        table.forget(rids)

    assert len(table._pool) < 20
