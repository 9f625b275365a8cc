"""Seed 004: search finds by meaning, and by words where there is no embedder or no vector."""

from tests.acceptance.processes import Place
from tests.acceptance.seed_004.directory import BAKERY, start

TYRES = {"name": "Steppe Tyres", "description": "Winter tyres for vans and trucks", "city": "Darkhan"}
NOBODY = {
    "EMBEDQ_EMBEDDER": "openai:some-model",
    "OPENAI_API_KEY": "sk-none",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",  # the port that discards: nobody listens there
}


def test_businesses_are_found_by_meaning(place: Place) -> None:
    """With the real local model a query finds the business it means, though none of its words stands there."""
    directory = start(place, EMBEDQ_EMBEDDER="local")
    directory.embedded(directory.add(**BAKERY), directory.add(**TYRES))

    found = directory.search("pastry croissants")

    assert [hit["name"] for hit in found["hits"]] == ["Khan Bakery", "Steppe Tyres"]
    assert (found["mode_used"], found["reason"], found["coverage"]) == ("hybrid", None, 1.0)
    assert directory.names("pastry croissants", city="Darkhan") == ["Steppe Tyres"]
    assert directory.names("pastry croissants", limit="1") == ["Khan Bakery"]


def test_with_the_provider_down_words_answer_and_say_so(place: Place) -> None:
    """Entries are taken, wait uncharged for their vectors, and are found by their words meanwhile."""
    directory = start(place, **NOBODY)
    bakery, _ = directory.add(**BAKERY), directory.add(**TYRES)
    directory.heard("embedder_backoff")

    found = directory.search("fresh bread")

    assert [hit["name"] for hit in found["hits"]] == ["Khan Bakery"]
    assert found["mode_used"] == "keyword"
    assert found["reason"].startswith("answered by words: ")
    assert directory.read(bakery)["embedding_status"] == "pending"
    assert directory.dead() == []


def test_an_entry_that_was_given_up_on_is_found_by_words(place: Place) -> None:
    """A dead letter takes nothing out of the directory."""
    directory = start(place, EMBEDQ_FAKE_FAULTS="bad=bread")
    directory.add(**BAKERY)
    directory.died(1)

    assert directory.names("bread") == ["Khan Bakery"]


def test_an_entry_without_a_description_is_found_by_words(place: Place) -> None:
    """Name, categories and city are enough to be found, however near the others are."""
    directory = start(place)
    directory.embedded(directory.add(**BAKERY))
    directory.add(name="Quiet Ltd", categories=["services"], city="Darkhan")

    assert directory.names("quiet services") == ["Quiet Ltd", "Khan Bakery"]
    assert directory.names("quiet", city="Ulaanbaatar") == ["Khan Bakery"]
    assert directory.ask("GET", "/api/yellow-books/search", 422, params={"q": " "})
