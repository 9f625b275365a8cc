"""Seed 004: what was given up on is listed, counted by cause, and gets another chance."""

from tests.acceptance.processes import Place
from tests.acceptance.seed_004.directory import BAKERY, Directory, Entry, sql, start
from tests.acceptance.waiting import until

QUICK = {"DIRECTORY_RETRY_BASE_SECONDS": 0.02}
AN_HOUR_AGO = "UPDATE embedq.job SET refused_at = refused_at - interval '1 hour' WHERE refused_at IS NOT NULL"
YESTERDAY = "UPDATE embedq.job SET failed_at = failed_at - interval '24 hours' WHERE failed_at IS NOT NULL"


def poison(directory: Directory, count: int) -> list[Entry]:
    return [directory.add(name=f"Shop {number}", description=f"POISON {number}") for number in range(count)]


def with_two_causes(place: Place) -> tuple[Directory, Entry, list[Entry]]:
    """Give up on one entry after five failures, and on two whose texts are refused."""
    directory = start(place, EMBEDQ_FAKE_FAULTS="500=5,bad=POISON", **QUICK)
    unlucky = directory.add(**BAKERY)
    directory.died(1)
    poisoned = poison(directory, 2)
    directory.died(3)
    return directory, unlucky, poisoned


def test_five_failures_are_a_dead_letter_and_causes_are_counted(place: Place) -> None:
    """After the fifth attempt a job is given up on; letters are listed by reason and grouped by cause."""
    directory, unlucky, poisoned = with_two_causes(place)

    [exhausted] = directory.dead(reason="max_retries_exceeded")
    stats = directory.ask("GET", "/api/admin/dead-letters/stats", 200)

    assert (exhausted["business_id"], exhausted["attempts"]) == (unlucky["id"], 5)
    assert (exhausted["error"]["category"], exhausted["error"]["code"]) == ("TRANSIENT", "500")
    assert {letter["business_id"] for letter in directory.dead(reason="permanent_error")} == {
        entry["id"] for entry in poisoned
    }
    assert stats["total"] == 3
    assert [(cause["reason"], cause["code"], cause["count"]) for cause in stats["causes"]] == [
        ("permanent_error", "400", 2),
        ("max_retries_exceeded", "500", 1),
    ]
    assert directory.status()["alerts"] == []


def test_letters_are_replayed_one_by_one_and_by_reason(place: Place) -> None:
    """One replay embeds one; a text that is still refused dies again under the same job; a filter replays the rest."""
    directory, unlucky, poisoned = with_two_causes(place)
    letters = {letter["business_id"]: letter["job_id"] for letter in directory.dead()}

    directory.ask("POST", f"/api/admin/dead-letters/{letters[unlucky['id']]}/replay", 202)
    directory.embedded(unlucky)
    directory.ask("POST", f"/api/admin/dead-letters/{letters[poisoned[0]['id']]}/replay", 202)
    until(lambda: len(directory.log("job_failed", jobId=letters[poisoned[0]["id"]])) == 2, "a second failure")
    assert {letter["job_id"] for letter in directory.died(2)} == {letters[entry["id"]] for entry in poisoned}
    assert directory.leave() == 0

    mended = start(place)
    replayed = mended.ask("POST", "/api/admin/dead-letters/replay", 202, json={"reason": "permanent_error"})

    assert replayed == {"replayed": 2}
    mended.embedded(*poisoned)
    assert mended.dead() == []
    mended.ask("POST", f"/api/admin/dead-letters/{letters[unlucky['id']]}/replay", 409)


def test_the_button_and_the_batch_embed_anew(place: Place) -> None:
    """Regenerate embeds even what is current; in a batch, by ids or by status, and says what has nothing to embed."""
    directory = start(place, EMBEDQ_FAKE_FAULTS="bad=POISON")
    [bakery] = directory.embedded(directory.add(**BAKERY))
    quiet = directory.add(name="Quiet Ltd")
    poisoned = poison(directory, 3)
    directory.died(3)
    calls = len(place.calls())

    pressed = directory.ask("POST", f"/api/yellow-books/{bakery['id']}/regenerate", 202)
    until(lambda: len(place.calls()) == calls + 1, "a call for a text whose vector was there")
    directory.ask("POST", f"/api/yellow-books/{quiet['id']}/regenerate", 409)
    directory.leave()
    mended = start(place)
    failed = mended.ask("POST", "/api/yellow-books/regenerate", 202, json={"embedding_status": "failed"})
    mended.embedded(*poisoned)
    named = mended.ask("POST", "/api/yellow-books/regenerate", 202, json={"ids": [bakery["id"], quiet["id"]]})

    assert pressed["job_id"] == bakery["job_id"]
    assert failed["queued"] == 3
    assert failed["jobs"].keys() == {entry["id"] for entry in poisoned}
    assert named == {"queued": 1, "jobs": {bakery["id"]: bakery["job_id"], quiet["id"]: None}}


def test_many_dead_letters_are_an_alert_and_outlive_their_entries(place: Place) -> None:
    """Above ten, the queue's status tells somebody to look; the letter of a removed entry stays, for the audit."""
    directory = start(place, EMBEDQ_FAKE_FAULTS="bad=POISON")
    first, *_ = poison(directory, 11)
    directory.died(11)

    directory.ask("DELETE", f"/api/yellow-books/{first['id']}", 204)

    [alert] = directory.status()["alerts"]
    assert alert.startswith("11 embedding jobs were given up on")
    [kept] = [letter for letter in directory.dead() if letter["business_id"] == first["id"]]
    assert (kept["entry"], kept["reason"]) == (None, "permanent_error")
    directory.ask("POST", f"/api/admin/dead-letters/{kept['job_id']}/replay", 409)


def test_an_empty_quota_is_a_dead_letter_after_an_hour_and_replayed_after_a_day(place: Place) -> None:
    """429 for an hour without one success gives up with reason quota; a day later the job is tried by itself."""
    directory = start(place, EMBEDQ_FAKE_FAULTS="429=1000:0.1")
    added = directory.add(**BAKERY)
    until(lambda: len(place.calls()) >= 2, "two refusals")
    assert directory.dead() == []

    sql(place, AN_HOUR_AGO)
    [letter] = directory.died(1)
    directory.leave()
    rested = start(place)
    early = rested.dead()
    rested.leave()
    sql(place, YESTERDAY)
    renewed = start(place)

    assert (letter["reason"], letter["attempts"], letter["error"]["code"]) == ("quota", 0, "429")
    assert [kept["job_id"] for kept in early] == [letter["job_id"]]
    renewed.embedded(added)
    assert renewed.dead() == []
