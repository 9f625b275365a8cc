"""Bad days: the database file is not what it should be, or not where it was."""

import sqlite3

from tests.acceptance.processes import Place
from tests.acceptance.waiting import until


def test_a_file_that_is_no_database_is_refused_and_left_alone(place: Place) -> None:
    """Another kind of file is refused at start, and not one byte of it changes."""
    place.database.write_text("Dear diary, this is no database. " * 100)
    before = place.database.read_bytes()

    refused = place.run("up")

    assert refused.returncode == 1
    assert "not a SQLite database" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert place.database.read_bytes() == before


def test_a_database_of_a_newer_version_is_refused(place: Place) -> None:
    """A schema that this version does not know is refused with what to do."""
    assert place.run("init").returncode == 0
    with sqlite3.connect(place.database) as database:
        database.execute("UPDATE embedq_control SET value = 999 WHERE name = 'schema'")
    database.close()

    refused = place.run("up")

    assert refused.returncode == 1
    assert "999" in refused.stderr
    assert "upgrade embedq" in refused.stderr


def test_a_folder_that_does_not_exist_is_refused(place: Place) -> None:
    """A path whose folder is not there is refused with its name."""
    refused = place.run("up", EMBEDQ_URL=f"sqlite:///{place.folder}/nowhere/queue.db")

    assert refused.returncode == 1
    assert "nowhere" in refused.stderr


def test_writes_to_a_file_that_was_deleted_are_refused_not_lost(place: Place) -> None:
    """With the file deleted under a running process no write is acknowledged, and readiness says why."""
    api = place.up()
    api.put({"id": "n1", "text": "one"})
    api.embedded(1)

    for path in place.folder.glob("queue.db*"):
        path.unlink()
    answer = api.http.post("/collections/notes/records", json={"id": "n2", "text": "two"})

    assert answer.status_code == 503
    assert "gone from its place" in answer.json()["detail"]
    ready = until(lambda: (r := api.http.get("/health/ready")).status_code == 503 and r.json(), "not ready")
    assert "gone" in ready["database"]
    assert not place.database.exists()
    assert api.leave() == 0


def test_the_log_of_an_api_alone_says_that_its_file_is_gone(place: Place) -> None:
    """Where no worker runs, the refused request itself leaves a line in the log that says what happened."""
    api = place.serve()
    api.put({"id": "n1", "text": "one"})
    place.database.unlink()

    assert api.http.post("/collections/notes/records", json={"id": "n2", "text": "two"}).status_code == 503

    assert "gone from its place" in api.heard("store_trouble")["error"]


def test_a_file_that_was_moved_and_put_back_works_again(place: Place) -> None:
    """While the file is away writes are refused; put back and resumed, everything goes on."""
    api = place.up(EMBEDQ_HEARTBEAT_SECONDS=0.2)
    api.put({"id": "n1", "text": "one"})
    api.embedded(1)
    away = place.folder / "away.db"
    place.database.rename(away)
    assert api.http.post("/collections/notes/records", json={"id": "n2", "text": "two"}).status_code == 503

    away.rename(place.database)
    until(lambda: api.http.post("/admin/queue/resume").is_success, "a database that answers again")

    api.put({"id": "n3", "text": "three"})
    api.embedded(2)


def test_another_database_in_its_place_is_not_written_to(place: Place) -> None:
    """A file that was swapped under a running process is noticed: the write is refused, and neither file changes."""
    api = place.serve()
    api.put({"id": "n1", "text": "one"})
    assert place.run("init", EMBEDQ_URL=f"sqlite:///{place.folder}/other.db").returncode == 0
    other = place.folder / "other.db"
    before = other.read_bytes()

    other.rename(place.database)
    answer = api.http.post("/collections/notes/records", json={"id": "n2", "text": "two"})

    assert answer.status_code == 503
    assert "replaced by another file" in answer.json()["detail"]
    assert place.database.read_bytes() == before
