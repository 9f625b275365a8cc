"""Bad days: the disk is full, or cannot be written to."""

from tests.acceptance.fullness import fill, put_until_full
from tests.acceptance.mounts import read_only, seen_by, small_disk
from tests.acceptance.processes import Place
from tests.acceptance.waiting import until


def test_a_full_disk_refuses_writes_and_work_goes_on_when_there_is_space(place: Place) -> None:
    """On a full disk a write is answered 507 and not kept; with space again all that was taken is embedded."""
    disk = place.folder / "disk"
    disk.mkdir()
    api = place.within(small_disk(disk, "4m"), "up", EMBEDQ_URL=f"sqlite:///{disk}/queue.db")
    api.put({"id": "first", "text": "first"})
    api.embedded(1)
    ballast = seen_by(api.pid, disk / "ballast")
    fill(ballast)

    acknowledged = put_until_full(api)
    assert api.http.get("/collections/notes/records/first").is_success
    ballast.unlink()

    api.put({"id": "last", "text": "last"})
    api.embedded(len(acknowledged) + 2)
    listed = api.http.get("/collections/notes/records", params={"limit": 1000}).json()["records"]
    assert {record["id"] for record in listed} == {"first", *acknowledged, "last"}
    assert api.leave() == 0


def test_a_worker_on_a_full_disk_says_so_and_finishes_later(place: Place) -> None:
    """Vectors that find no space are kept and stored when there is some; the log tells of the full disk meanwhile."""
    disk = place.folder / "disk"
    disk.mkdir()
    api = place.within(
        small_disk(disk, "4m"),
        "up",
        EMBEDQ_URL=f"sqlite:///{disk}/queue.db",
        EMBEDQ_EMBEDDER="fake@2048",
        EMBEDQ_FAKE_FAULTS="latency=0.3",
    )
    api.put(*({"id": f"n{number}", "text": f"text {number}"} for number in range(60)))
    until(place.calls, "texts with the embedder")
    ballast = seen_by(api.pid, disk / "ballast")
    fill(ballast)

    trouble = api.heard("store_trouble", act="settle")
    ballast.unlink()

    assert "full" in trouble["error"]
    api.embedded(60)
    assert len(place.embedded_hashes()) == 60


def test_a_folder_that_cannot_be_written_to_stops_the_start(place: Place) -> None:
    """A read-only place for the database is refused at start with what to check, for a new file and for an old one."""
    folder = place.folder / "locked"
    folder.mkdir()
    url = f"sqlite:///{folder}/queue.db"

    fresh = place.wrapped(read_only(folder), "up", EMBEDQ_URL=url)
    assert fresh.wait() == 1
    place.run("init", EMBEDQ_URL=url)
    old = place.wrapped(read_only(folder), "up", EMBEDQ_URL=url)
    assert old.wait() == 1

    for refused in (fresh, old):
        assert "queue.db cannot be opened" in refused.errors
        assert "may this user write there" in refused.errors
        assert "Traceback" not in refused.errors
