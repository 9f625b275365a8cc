"""Every command as each of the ready roles: those of the page go well, the others are refused with the role's name."""

import asyncio
import json
from pathlib import Path

import asyncpg
import pytest
from tests.stores.postgres.roles import Roles
from typer.testing import CliRunner, Result

from embedq.cli.entry import PANELS, commands
from embedq.errors import StoreUnusable
from embedq.stores.postgres import PostgresStore
from embedq.testing.stores.stage import embed_all

READS = (
    ("status",),
    ("jobs",),
    ("jobs", "--status", "pending"),
    ("collections",),
    ("search", "notes", "weaving"),
    ("embed", "weaving"),
    ("get", "notes", "a"),
    ("list", "notes"),
    ("export", "notes"),
    ("attachments",),
    ("dead", "list"),
    ("dead", "stats"),
)
WRITES = (
    ("put", "notes", "notes.jsonl"),
    ("retry-failed",),
    ("dead", "replay", "--all"),
    ("declare", "more"),
    ("declare", "more", "--priority", "high"),
    ("drop", "more", "--confirm", "more"),
    ("delete", "notes", "gone"),
)
WORKS = (
    ("pause",),
    ("resume",),
    ("repair",),
    ("repair", "--deep"),
    ("requeue-stale",),
    ("import", "notes", "notes.jsonl"),
)
OWNS = (
    ("init",),
    ("init", "--roles"),
    ("attach", "shop.docs", "--key", "id", "--text", "body"),
    ("detach", "shop.docs"),
)
# They run on, wait, only say what they found, or need a job's id.
ELSEWHERE = {"up", "serve", "work", "bench", "doctor", "drain", "cancel"}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have records to put in the working directory."""
    (tmp_path / "notes.jsonl").write_text('{"id": "a", "text": "weaving"}\n')
    monkeypatch.chdir(tmp_path)


async def run(url: str, words: tuple[str, ...]) -> Result:
    """Run a command as whoever this is."""
    environment = {"EMBEDQ_URL": url, "EMBEDQ_EMBEDDER": "fake@8"}
    return await asyncio.to_thread(CliRunner().invoke, commands, list(words), env=environment)


async def prepared(roles: Roles) -> None:
    """Make a collection with an embedded record, and a table to attach."""
    ada = await asyncpg.connect(roles.owner)
    await ada.execute("CREATE SCHEMA shop; CREATE TABLE shop.docs (id int PRIMARY KEY, body text)")
    await ada.close()
    put = await run(roles.writer, WRITES[0])
    assert put.exit_code == 0, put.exception
    store = await PostgresStore.open(roles.worker)
    await embed_all(store)
    await store.close()


@pytest.mark.parametrize(
    ("role", "may"),
    [("reader", READS), ("writer", READS + WRITES), ("worker", READS + WRITES + WORKS)],
)
async def test_each_role_runs_its_commands(roles: Roles, role: str, may: tuple[tuple[str, ...], ...]) -> None:
    """With attached tables beside plain collections."""
    await prepared(roles)
    assert (await run(roles.owner, OWNS[2])).exit_code == 0
    for words in may:
        ended = await run(getattr(roles, role), words)
        assert (words, ended.exit_code, ended.exception) == (words, 0, None)


async def test_the_owner_runs_all_of_them(roles: Roles) -> None:
    """And so does one who becomes the owner at login."""
    await prepared(roles)
    for words in READS + WRITES + WORKS + (OWNS[0], *OWNS[2:]):
        ended = await run(roles.acting_owner, words)
        assert (words, ended.exit_code, ended.exception) == (words, 0, None)


@pytest.mark.parametrize(
    ("role", "may_not"),
    [
        ("reader", (WRITES[0], ("pause",), ("resume",), ("requeue-stale",), ("import", "notes", "notes.jsonl"))),
        ("writer", (("pause",), ("resume",), ("requeue-stale",), ("import", "notes", "notes.jsonl"))),
        ("worker", OWNS[1:]),
    ],
)
async def test_a_command_too_many_is_refused_with_advice(
    roles: Roles, role: str, may_not: tuple[tuple[str, ...], ...]
) -> None:
    """It names the roles that help, or the owner where none does."""
    await prepared(roles)
    advice = roles.names["ada"] if role == "worker" else "GRANT embedq_reader, embedq_writer or embedq_worker"
    for words in may_not:
        ended = await run(getattr(roles, role), words)
        assert isinstance(ended.exception, StoreUnusable), words
        assert advice in str(ended.exception)


async def test_a_doctor_who_may_not_mend_tells_all_the_same(roles: Roles) -> None:
    """A reader's repair is refused in one line, which says what was found; every other check is told."""
    await prepared(roles)
    assert (await run(roles.writer, ("put", "more", "notes.jsonl"))).exit_code == 0
    ada = await asyncpg.connect(roles.owner)
    await ada.execute("DELETE FROM embedq.ready")
    await ada.close()

    plain, refused = [
        {finding["check"]: finding for finding in json.loads(ended.stdout)["findings"]}
        for ended in (
            await run(roles.reader, ("doctor", "--json")),
            await run(roles.reader, ("doctor", "--repair", "--json")),
        )
    ]

    assert list(refused) == list(plain)
    assert {check for check in plain if refused[check]["verdict"] != plain[check]["verdict"]} == set()
    assert plain["places"]["message"].startswith("1 job in no place or in several: `embedq doctor --repair`")
    assert refused["places"]["message"].startswith(
        "1 job in no place or in several, and they could not be queued again"
    )
    assert "GRANT embedq_reader, embedq_writer or embedq_worker" in refused["places"]["message"]


async def test_a_writer_cancels_a_job(roles: Roles) -> None:
    """A reader does not."""
    await prepared(roles)
    assert (await run(roles.writer, ("put", "more", "notes.jsonl"))).exit_code == 0
    listed = await run(roles.reader, ("jobs", "--status", "pending", "--json"))
    [job] = json.loads(listed.stdout)["jobs"]

    assert isinstance((await run(roles.reader, ("cancel", job["id"]))).exception, StoreUnusable)
    assert (await run(roles.writer, ("cancel", job["id"]))).exit_code == 0


def test_no_command_is_left_out() -> None:
    """A new command is tried as each role, too."""
    tried = {words[0] for words in (*READS, *WRITES, *WORKS, *OWNS)}
    assert {name for panel in PANELS.values() for name in panel} - tried == ELSEWHERE
