"""A queue that is gone: the corpus knows what is missing, and nothing that is stored is paid for again."""

from pathlib import Path

from tests.acceptance.pair.dying import FIRST, attempt, open_pair, work, write

from embedq.model import Ask, JobFilter, WorkerId
from embedq.stores.pair import PairStore
from embedq.telemetry import Telemetry
from embedq.testing.stores.stage import DIMENSIONS, LEASE, NOTES, declaration
from embedq.upkeep.reconcile import Reconcile


async def test_an_empty_queue_takes_the_place_of_one_that_is_gone(tmp_path: Path) -> None:
    """What has a vector is left alone, no number comes again, and who held a lease of before changes nothing."""
    corpus, lost, empty = (f"sqlite:///{tmp_path}/{name}.db" for name in ("corpus", "lost", "empty"))
    before = await open_pair(corpus, lost)
    collection = await before.declare(declaration())
    await before.learn(collection.space.id, DIMENSIONS)
    await write(before, tmp_path, FIRST)
    await work(before, tmp_path, most=1)
    ask = Ask(worker=WorkerId("old"), spaces=[collection.space.id], limit=1, span=LEASE)
    stale = (await before.lease(ask)).leases
    old = await _numbers(before)
    await before.close()

    store = await open_pair(corpus, empty)
    found = await Reconcile(store, Telemetry(), one_database=False).walk()
    settled = await store.settle(await attempt(store, stale, tmp_path))

    assert found == {NOTES: 3}  # two have vectors, one text was given up on
    assert settled.jobs == frozenset()
    assert not old & await _numbers(store)
    assert await work(store, tmp_path) == 3
    paid = (tmp_path / "paid").read_text().splitlines()
    assert sorted(paid) == sorted(set(FIRST.values()) - {FIRST["c"]})
    assert sum((await Reconcile(store, Telemetry(), one_database=False).walk()).values()) == 0
    await store.close()


async def _numbers(store: PairStore) -> set[str]:
    return {job.id for job in (await store.jobs(JobFilter(), limit=100)).items}
