"""What status, doctor and health say of dead and silent workers and of embedders in trouble, told by real processes."""

import json
import socket
from typing import Any

import pytest
from tests.acceptance.processes import Place
from tests.acceptance.provider import KEY, Provider
from tests.acceptance.waiting import until

BEATS = {"EMBEDQ_HEARTBEAT_SECONDS": 0.2, "EMBEDQ_WORKERS": 1}
TEXT = "a text that nobody but its owner should read"


def facts(place: Place, command: str, *, code: int = 0, **settings: object) -> dict[str, Any]:
    """Ask another process, which knows only what the database says."""
    ended = place.run(command, "--json", **settings)
    assert ended.returncode == code, ended.stdout + ended.stderr
    return dict(json.loads(ended.stdout))


def said(place: Place, what: str, **settings: object) -> str:
    """Wait until a note of the status holds these words; answer with it."""

    def found() -> str | None:
        notes = facts(place, "status", **settings)["notes"]
        return next((note for note in notes if what in note), None)

    return until(found, f"a note with {what!r}")


def finding(place: Place, check: str, *, code: int, **settings: object) -> dict[str, Any]:
    """Ask the doctor for one check."""
    findings = facts(place, "doctor", code=code, **settings)["findings"]
    [found] = [one for one in findings if one["check"] == check]
    return dict(found)


def test_a_killed_process_is_dead_in_every_report_at_once(place: Place) -> None:
    """Though its last heartbeat is fresh, status and doctor say that it is gone, and how to start another."""
    api = place.up(EMBEDQ_FAKE_FAULTS="hang=1", EMBEDQ_WORKERS=1)
    api.put({"id": "a", "text": "A"})
    api.counted(processing=1)

    api.kill()

    status = facts(place, "status")
    [worker] = status["workers"]["workers"]
    assert (worker["alive"], worker["missed_heartbeats"]) == (False, 0)
    assert status["health"] == "DEGRADED"
    assert any(f"process {api.pid} is gone" in note for note in status["notes"])
    assert any("1 job waiting, and no worker is alive: start one with `embedq work`" in n for n in status["notes"])
    found = finding(place, "workers", code=1)
    assert found["verdict"] == "problem"
    assert "embedq work" in found["message"]


def test_a_frozen_worker_is_reported_after_three_heartbeats(place: Place) -> None:
    """Its process is there, so only its silence tells."""
    api = place.serve(**BEATS)
    silent = place.work(**BEATS)
    until(lambda: api.status()["workers"]["num_workers"] == 1, "a worker")

    place.freeze(silent)

    status = until(lambda: (found := api.status())["health"] == "DEGRADED" and found, "a silent worker")
    [worker] = status["workers"]["workers"]
    assert (worker["alive"], worker["missed_heartbeats"] >= 3) == (False, True)
    assert any(f"worker {worker['id']} missed" in note for note in status["notes"])
    silent.go_on()
    until(lambda: api.status()["health"] == "HEALTHY", "signs of life")


def test_a_refused_key_is_told_in_the_providers_words(place: Place) -> None:
    """Health, status and doctor name the variable to check, and neither the key nor the text."""
    with Provider("401=1000") as provider:
        settings = {**provider.settings, **BEATS}
        api = place.up(**settings)
        api.put({"id": "a", "text": TEXT})
        api.heard("embedder_halted")

        note = said(place, "is halted", **settings)

        assert "OPENAI_API_KEY" in note
        assert "401" in note
        ready = api.http.get("/health/ready").json()
        assert note in ready["notes"]
        found = finding(place, "workers", code=1, **settings)
        assert "OPENAI_API_KEY" in found["message"]
        assert KEY not in f"{ready}{found}"
        assert TEXT not in f"{ready}{found}"


@pytest.mark.parametrize("way_out", ["restart", "resume"])
def test_a_halted_embedder_names_its_way_out(place: Place, way_out: str) -> None:
    """Health, status and doctor name two ways out of a halt, and each of them leads out."""
    with Provider("401=1") as provider:
        settings = {**provider.settings, **BEATS}
        api = place.up(**settings)
        api.put({"id": "a", "text": TEXT})
        api.heard("embedder_halted")
        note = said(place, "is halted", **settings)
        assert note.endswith("(restart with the right setting, or `embedq resume` if it was the provider's fault)")
        assert note in api.http.get("/health/ready").json()["notes"]
        assert note in finding(place, "workers", code=1, **settings)["message"]

        if way_out == "restart":
            assert api.leave() == 0
            api = place.up(**settings)
        else:
            assert place.run("resume", **settings).returncode == 0

        api.embedded(1)
        until(lambda: not [note for note in api.status()["notes"] if "is halted" in note], "no trouble")


def test_an_unknown_model_is_told(place: Place) -> None:
    """An embedder that rests says why, and that it is tried again."""
    with Provider("404=1000") as provider:
        settings = {**provider.settings, **BEATS}
        place.up(**settings).put({"id": "a", "text": TEXT})

        note = said(place, "openai:some-model fails", **settings)

        assert "Check the model's name and OPENAI_BASE_URL" in note
        status = facts(place, "status", **settings)
        assert status["health"] == "DEGRADED"
        assert status["workers"]["workers"][0]["embedder_troubles"].keys() == {"openai:some-model"}


def test_a_dead_port_is_told(place: Place) -> None:
    """Nobody listens where OPENAI_BASE_URL points."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base = f"http://127.0.0.1:{port}/v1"
    settings = {"EMBEDQ_EMBEDDER": "openai:some-model", "OPENAI_BASE_URL": base, "OPENAI_API_KEY": KEY, **BEATS}
    place.up(**settings).put({"id": "a", "text": TEXT})

    assert "OPENAI_BASE_URL" in said(place, "cannot be reached", **settings)


def test_a_refused_field_is_told_and_forgotten_when_it_works(place: Place) -> None:
    """An embedder that refuses even a harmless text is not to be doubted silently; once it answers, all is well."""
    with Provider("400=40") as provider:
        settings = {**provider.settings, **BEATS, "EMBEDQ_BATCH_SIZE": 1}
        api = place.up(**settings)
        api.put(*({"id": f"n{number}", "text": f"{TEXT} {number}"} for number in range(10)))

        note = said(place, "openai:some-model fails", **settings)

        assert "400" in note
        assert "EMBEDQ_EMBEDDER" in note


def test_the_doctor_asks_the_embedders_that_collections_use(place: Place) -> None:
    """Not the default, which nobody uses: a collection's own embedder that does not answer is a problem."""
    with Provider("401=1000") as provider:
        api = place.serve(**provider.settings)
        answer = api.http.put("/collections/notes", json={"embedder": "openai:some-model"})
        assert answer.is_success, answer.text

        found = finding(place, "embedder", code=1, **{**provider.settings, "EMBEDQ_EMBEDDER": "fake@16"})

        assert found["verdict"] == "problem"
        assert found["message"].startswith("openai:some-model")
        assert "OPENAI_API_KEY" in found["message"]
