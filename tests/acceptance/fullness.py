"""Filling a disk, and writing records until it is full."""

from pathlib import Path

from tests.acceptance.processes import Api
from tests.acceptance.waiting import until

TEXT = "some words to fill the disk with " * 300
CHUNK = b"\0" * 4096


def fill(path: Path) -> None:
    """Write until there is no room for another byte."""
    with path.open("ab", buffering=0) as file:
        try:
            while file.write(CHUNK):
                pass
        except OSError:
            return


def put_until_full(api: Api) -> list[str]:
    """Write records until one is refused for want of space; answer with those that were acknowledged."""
    acknowledged: list[str] = []

    def refused() -> bool:
        name = f"n{len(acknowledged)}"
        answer = api.http.post("/collections/notes/records", json={"id": name, "text": f"{name} {TEXT}"})
        if answer.status_code == 201:
            acknowledged.append(name)
            return False
        assert answer.status_code == 507, answer.text
        assert answer.json()["type"] == "urn:embedq:problem:store-full"
        assert "free some space" in answer.json()["detail"]
        return True

    until(refused, "a full disk")
    return acknowledged
