"""Installed by pip with any extra alone, each command works or says in one sentence what to install."""

import json
from pathlib import Path

import pytest
from tests.install.environments import LOCAL, Environment

POSTGRES = "postgresql://ada@127.0.0.1:1/shop"
HAS_SERVER = {LOCAL, "server"}
HAS_FAISS = {LOCAL, "faiss"}
FAKE = {"EMBEDQ_EMBEDDER": "fake"}
WORKING = [
    ("--version",),
    ("--help",),
    ("init",),
    ("put", "notes", "notes.jsonl"),
    ("import", "notes", "notes.jsonl"),
    ("status", "--json"),
    ("jobs",),
    ("collections",),
    ("search", "notes", "loom"),
    ("search", "notes", "loom", "--mode", "keyword"),
    ("embed", "loom"),
    ("declare", "notes", "--priority", "high"),
    ("get", "notes", "n1"),
    ("list", "notes"),
    ("export", "notes"),
    ("dead", "list"),
    ("dead", "stats"),
    ("pause",),
    ("drain", "--timeout", "1"),
    ("resume",),
    ("retry-failed",),
    ("requeue-stale",),
    ("repair",),
    ("cancel", "1"),
    ("delete", "notes", "n1"),
    ("drop", "notes", "--confirm", "notes"),
]
SEARCH = """
import asyncio
import json
import sys

import embedq


async def main() -> None:
    async with embedq.open("sqlite:///found.db", workers=1, embedder="fake") as eq:
        await eq.put("notes", [{"id": "n1", "text": "Call Ada about the loom"}])
        await eq.wait("notes", ["n1"], timeout=60)
        answer = await eq.search("notes", "loom", mode=sys.argv[1])
        print(json.dumps([answer.mode_used, answer.reason, [hit.id for hit in answer.hits]]))


try:
    asyncio.run(main())
except embedq.errors.SearchUnavailable as refusal:
    print(json.dumps(str(refusal)))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a file of records."""
    (tmp_path / "notes.jsonl").write_text(json.dumps({"id": "n1", "text": "Call Ada about the loom"}) + "\n")
    return tmp_path


def refused(environment: Environment, place: Path, *words: str, **variables: str) -> str:
    """Run a command that must end with 1 and one sentence; return it."""
    done = environment.run(place, *words, **variables)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    [said] = done.stderr.splitlines()
    assert said.startswith("embedq: ")
    return said.removeprefix("embedq: ")


def test_what_needs_no_library_works_with_every_extra(environment: Environment, place: Path) -> None:
    """Writing, looking, operating and search by words: each ends with 0 and complains of nothing."""
    said = {words: environment.run(place, *words, **FAKE) for words in WORKING}
    odd = {
        words: _complaints(done.stderr) for words, done in said.items() if done.returncode or _complaints(done.stderr)
    }

    assert odd == {}


def _complaints(said: str) -> list[str]:
    return [line for line in said.splitlines() if not line.startswith("● ")]  # what was done, and who works on it


def test_up_names_all_that_is_missing_in_one_command(environment: Environment, place: Path) -> None:
    """The model's libraries and the server's, and nothing was created."""
    if environment.extra == LOCAL:
        pytest.skip("nothing is missing here")
    missing = "local" if environment.extra in HAS_SERVER else "local,server"

    said = refused(environment, place, "up")

    assert said.endswith(f"are missing: run {environment.programs.python} -m pip install 'embedq[{missing}]'")
    assert [path.name for path in place.iterdir()] == ["notes.jsonl"]


def test_serve_says_that_the_server_is_missing(environment: Environment, place: Path) -> None:
    """With an embedder that needs no library, only the server's are named."""
    if environment.extra in HAS_SERVER:
        pytest.skip("nothing is missing here")

    assert refused(environment, place, "serve", **FAKE).endswith("-m pip install 'embedq[server]'")


def test_work_says_what_its_embedder_needs(environment: Environment, place: Path) -> None:
    """The library of OpenAI, or its key."""
    said = refused(environment, place, "work", "--embedder", "openai:text-embedding-3-small")

    assert ("OPENAI_API_KEY" if environment.extra == "openai" else "pip install 'embedq[openai]'") in said


@pytest.mark.parametrize("words", [("embed", "loom"), ("bench", "--records", "100")], ids=" ".join)
def test_what_embeds_says_what_the_local_model_needs(
    environment: Environment, place: Path, words: tuple[str, ...]
) -> None:
    """Its libraries, with the extra that brings them."""
    if environment.extra == LOCAL:
        pytest.skip("nothing is missing here")
    environment.run(place, "init")

    assert "pip install 'embedq[local]'" in refused(environment, place, *words)


def test_postgresql_says_that_its_driver_is_missing(environment: Environment, place: Path) -> None:
    """Or, where it is there, that nobody answers."""
    for words in (("status",), ("init",), ("put", "notes", "notes.jsonl")):
        said = refused(environment, place, *words, "--url", POSTGRES)

        assert ("cannot be reached" if environment.extra == "postgres" else "pip install 'embedq[postgres]'") in said


@pytest.mark.parametrize("embedder", ["ollama:nomic-embed-text", "gemini:text-embedding-004"])
def test_what_comes_later_is_said(environment: Environment, place: Path, embedder: str) -> None:
    """Its library may be there, the embedder is not."""
    assert "is not in this version yet" in refused(environment, place, "work", "--embedder", embedder)


@pytest.mark.parametrize("mode", ["auto", "hybrid", "semantic"])
def test_without_faiss_a_search_answers_by_words(environment: Environment, place: Path, mode: str) -> None:
    """It says why, with the command; a search by meaning alone is refused with the same words."""
    done = environment.python(place, "-c", SEARCH, mode)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)

    if environment.extra in HAS_FAISS:
        assert answer == ["semantic" if mode == "semantic" else "hybrid", None, ["n1"]]
    elif mode == "semantic":
        assert "search by vectors needs FAISS: run pip install 'embedq[faiss]'" in answer
    else:
        reason = "answered by words: search by vectors needs FAISS: run pip install 'embedq[faiss]'"
        assert answer == ["keyword", reason, ["n1"]]


def test_the_doctor_says_what_the_embedder_needs(environment: Environment, place: Path) -> None:
    """It looks at the default embedder, and ends with what it found."""
    environment.run(place, "init")

    done = environment.run(place, "doctor", "--json")

    said = {finding["check"]: finding["message"] for finding in json.loads(done.stdout)["findings"]}
    assert "Traceback" not in done.stderr
    assert environment.extra == LOCAL or any("pip install 'embedq[local]'" in message for message in said.values())
