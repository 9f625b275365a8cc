"""Seed 004: the same text is embedded once, and a vector is stored only with the text it was made of."""

import pytest
from tests.acceptance.processes import Place
from tests.acceptance.seed_004.directory import BAKERY, hash_of, start, vector_of
from tests.acceptance.waiting import until


def test_the_same_text_again_is_the_same_job(place: Place) -> None:
    """Sent once more, while it waits and after it was embedded, a description queues nothing and names its job."""
    directory = start(place, DIRECTORY_WORKERS=0)
    added = directory.add(**BAKERY)

    again = directory.change(added, description=BAKERY["description"], city=BAKERY["city"])
    assert (again["embedding_status"], again["job_id"]) == ("pending", added["job_id"])
    assert directory.status()["queue"]["pending"]["total"] == 1
    place.work()
    directory.embedded(added)
    late = directory.change(added, description=BAKERY["description"])

    assert (late["embedding_status"], late["job_id"]) == ("embedded", added["job_id"])
    assert place.embedded_hashes() == [hash_of(added)]


def test_an_edit_while_its_job_runs_is_never_lost(place: Place) -> None:
    """The answer for the old text does not become the new text's vector; the new one is embedded after it."""
    directory = start(place, EMBEDQ_FAKE_FAULTS="latency=0.5")
    added = directory.add(**BAKERY)
    until(place.calls, "a call for the first text")

    changed = directory.change(added, description="Closed for good")

    assert place.embedded_hashes() == [hash_of(added)]
    [embedded] = directory.embedded(added)
    assert embedded["embedding"] == pytest.approx(vector_of(changed))
    assert place.embedded_hashes() == [hash_of(added), hash_of(changed)]


def test_two_entries_with_one_text_are_paid_for_once(place: Place) -> None:
    """The vector of a text that is known is taken, not bought again."""
    directory = start(place)
    [first] = directory.embedded(directory.add(**BAKERY))

    [second] = directory.embedded(directory.add(**BAKERY))

    assert second["embedding"] == first["embedding"]
    assert place.embedded_hashes() == [hash_of(first)]
