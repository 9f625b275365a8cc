"""Seed 004: an entry is written at once, together with its job, and only if there is something to embed."""

import pytest
from tests.acceptance.processes import Place
from tests.acceptance.seed_004.directory import BAKERY, Entry, hash_of, sql, start, text_of, vector_of
from tests.acceptance.waiting import until

REFUSE_COMMITS = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not today'; END $$;
CREATE CONSTRAINT TRIGGER refused AFTER INSERT OR UPDATE OR DELETE ON yellow_book_entry DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION refuse();
"""
WRITTEN = """
SELECT (SELECT count(*) FROM yellow_book_entry) AS entries, (SELECT count(*) FROM embedq.record) AS records,
  (SELECT count(*) FROM embedq.job) AS jobs, (SELECT count(*) FROM embedq.ready) AS ready
"""


def test_a_new_entry_is_answered_at_once_and_embedded_behind(place: Place) -> None:
    """201 with a job comes while the provider is silent; the vector is that of name, description, categories, city."""
    silent = {"EMBEDQ_FAKE_FAULTS": "hang=1", "EMBEDQ_ATTEMPT_SECONDS": 1, "DIRECTORY_RETRY_BASE_SECONDS": 0.05}
    directory = start(place, EMBEDQ_EMBEDDER="fake@768", **silent)

    added = directory.add(**BAKERY)

    assert added["embedding_status"] == "pending"
    assert added["job_id"]
    assert added.items() >= BAKERY.items()
    [embedded] = directory.embedded(added)
    assert text_of(embedded) == "Khan Bakery\nFresh bread every morning\nfood, bakery\nUlaanbaatar"
    assert embedded["embedding"] == pytest.approx(vector_of(embedded, 768))


def test_only_a_change_of_the_text_queues_a_job(place: Place) -> None:
    """Phone numbers queue nothing; a description does, and so does a new name, since it is part of the text."""
    directory = start(place)
    added = directory.add(**BAKERY)
    directory.embedded(added)

    assert directory.change(added, phone="7011-0002", website="https://khan.example")["embedding_status"] == "embedded"
    assert len(place.calls()) == 1
    changes: list[Entry] = [{"description": "Cakes to order"}, {"name": "Khan's Cakes"}]
    for change in changes:
        changed = directory.change(added, **change)
        assert changed["embedding_status"] == "pending"
        directory.embedded(added)
        assert place.embedded_hashes()[-1] == hash_of(changed)
    assert len(place.calls()) == 3


def test_an_entry_without_a_description_has_no_job(place: Place) -> None:
    """Nothing is queued before there is a description, nothing is left when it is taken away."""
    directory = start(place)

    added = directory.add(name="Quiet Ltd", phone="7011-0003")
    assert (added["embedding_status"], added["job_id"]) == (None, None)
    assert directory.status()["records"]["total"] == 0
    assert directory.change(added, description="   ", city="Darkhan")["job_id"] is None

    assert directory.change(added, description="Silence by the hour")["job_id"]
    directory.embedded(added)
    taken = directory.change(added, description=None)
    assert (taken["embedding_status"], directory.status()["records"]["total"]) == (None, 0)


def test_a_write_that_fails_changes_neither_entry_nor_job(place: Place) -> None:
    """When the transaction fails after the put, at its commit, it is as if it had never been."""
    directory = start(place)
    kept = directory.add(**BAKERY)
    directory.embedded(kept)
    sql(place, REFUSE_COMMITS)

    assert "not today" in directory.ask("POST", "/api/yellow-books", 503, json=BAKERY)["detail"]
    directory.ask("PATCH", f"/api/yellow-books/{kept['id']}", 503, json={"description": "Something else"})
    directory.ask("DELETE", f"/api/yellow-books/{kept['id']}", 503)

    [written] = sql(place, WRITTEN)
    assert written == {"entries": 1, "records": 1, "jobs": 1, "ready": 0}
    assert directory.read(kept)["description"] == BAKERY["description"]
    assert directory.read(kept)["embedding_status"] == "embedded"
    assert len(place.calls()) == 1


def test_a_refused_entry_writes_nothing(place: Place) -> None:
    """What cannot be stored is refused as a whole, whether by the form or by embedq."""
    directory = start(place, EMBEDQ_MAX_TEXT_BYTES=500)
    bad: list[tuple[dict[str, str], int]] = [
        ({"description": "no name"}, 422),
        ({"name": " "}, 422),
        ({"name": "NUL", "description": "\0"}, 422),
        ({"name": "typo", "descripton": "x"}, 422),
        ({"name": "novel", "description": "x" * 1000}, 422),
    ]

    for entry, expected in bad:
        directory.ask("POST", "/api/yellow-books", expected, json=entry)

    [written] = sql(place, WRITTEN)
    assert set(written.values()) == {0}


def test_a_removed_entry_is_gone_from_search_at_once(place: Place) -> None:
    """Its job is cancelled and its vector is gone; a second removal finds nothing."""
    directory = start(place, EMBEDQ_FAKE_FAULTS="ok=1,hang=1")
    embedded = directory.add(**BAKERY)
    directory.embedded(embedded)
    waiting = directory.add(name="Slow Tailor", description="Suits, one day")
    until(lambda: len(place.calls()) == 2, "a call that hangs")

    for entry in (embedded, waiting):
        directory.ask("DELETE", f"/api/yellow-books/{entry['id']}", 204)

    assert directory.search("bread suits")["hits"] == []
    assert directory.status()["queue"]["cancelled"]["total"] == 1
    assert directory.dead() == []
    directory.ask("DELETE", f"/api/yellow-books/{embedded['id']}", 404)
    directory.ask("GET", f"/api/yellow-books/{embedded['id']}", 404)
