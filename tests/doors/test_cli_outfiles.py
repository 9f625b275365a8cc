"""Files that commands write, and commands that are ended while they write."""

import signal
from pathlib import Path

import pytest
from tests.doors.conftest import Shell
from tests.doors.test_cli import notes
from tests.doors.test_cli_running import until

from embedq.cli.outfiles import replacing

ENDED = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
BAD = '{"id": "a", "text": "loom"}\n{broken\n'


def drafts(shell: Shell) -> list[Path]:
    """List the drafts of `out.jsonl`."""
    return list(shell.folder.glob(".out.jsonl.*"))


def hooked(shell: Shell, code: str) -> dict[str, str]:
    """Let commands run this code first; return the variables for it."""
    (shell.folder / "sitecustomize.py").write_text(code)
    return {"PYTHONPATH": str(shell.folder)}


def stop_export(shell: Shell, number: signal.Signals) -> int:
    """Send a signal to an export that has begun; return how it ended."""
    hook = "import asyncio\nfrom embedq.cli import exporting\nexporting._with_vectors = lambda *_: asyncio.sleep(600)\n"
    process = shell.start("export", "notes", "out.jsonl", "--vectors", **hooked(shell, hook))
    until(lambda: bool(drafts(shell)))
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert "Traceback" not in said
    return process.returncode


@pytest.mark.parametrize(("number", "code"), ENDED)
def test_an_export_that_is_ended_leaves_nothing(shell: Shell, number: signal.Signals, code: int) -> None:
    """The name is taken when all is written: until then the old file stands, and a signal removes the draft."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(3)))
    out = shell.folder / "out.jsonl"
    out.write_text("old")

    assert stop_export(shell, number) == code

    assert (out.read_text(), drafts(shell)) == ("old", [])


def test_the_draft_of_a_killed_export_goes_with_the_next(shell: Shell) -> None:
    """Nothing can be removed at once then, and texts must not lie about."""
    shell.run("put", "notes", shell.write("n.jsonl", *notes(3)))
    (shell.folder / "out.jsonl").write_text("old")
    stop_export(shell, signal.SIGKILL)
    assert len(drafts(shell)) == 1
    assert (shell.folder / "out.jsonl").read_text() == "old"

    shell.run("export", "notes", "out.jsonl")

    assert drafts(shell) == []


def test_two_exports_at_once_keep_their_drafts(tmp_path: Path) -> None:
    """One that is being written is nobody's leftover; the last to end gives the content."""
    target = tmp_path / "out[1].jsonl"
    with replacing(target) as first:
        first.write(b"first")
        with replacing(target) as second:
            second.write(b"second")

    assert target.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(("number", "code"), ENDED)
def test_an_import_that_is_ended_resumes_the_queue(shell: Shell, number: signal.Signals, code: int) -> None:
    """Otherwise no worker would lease anything, until somebody noticed."""
    shell.run("init")
    hook = "import asyncio\nfrom embedq.cli import replacing\nreplacing.put_all = lambda *_: asyncio.sleep(600)\n"
    variables = hooked(shell, hook)
    process = shell.start("import", "notes", shell.write("n.jsonl", *notes(3)), **variables)
    until(lambda: shell.facts("status")["paused"] is True)

    process.send_signal(number)
    process.communicate(timeout=60)

    assert process.returncode == code
    assert shell.facts("status")["paused"] is False


def test_no_command_writes_over_a_database(shell: Shell) -> None:
    """A slip in a file's name costs no data: neither the database in use nor any other."""
    (shell.folder / "n.jsonl").write_text(BAD)
    shell.run("put", "notes", shell.write("one.jsonl", *notes(1)))

    for words in (("export", "notes", "embedq.db"), ("put", "notes", "n.jsonl", "--rejects", "embedq.db")):
        said = shell.run(*words, code=1).stderr
        assert said == "embedq: embedq.db is a SQLite database, and is not written over: name another file\n"

    assert shell.facts("status")["records"]["total"] == 1


def test_rejects_that_cannot_be_written_are_one_sentence(shell: Shell) -> None:
    """On a full disk, for example."""
    (shell.folder / "n.jsonl").write_text(BAD)

    said = shell.run("put", "notes", "n.jsonl", "--rejects", "/dev/full", code=1).stderr

    assert said == "embedq: /dev/full cannot be written: No space left on device\n"


def test_rejects_follow_no_link_to_where_nothing_is(shell: Shell) -> None:
    """Whoever laid it would say where this user's texts are written."""
    (shell.folder / "n.jsonl").write_text(BAD)
    (shell.folder / "bad.jsonl").symlink_to("elsewhere")

    said = shell.run("put", "notes", "n.jsonl", "--rejects", "bad.jsonl", code=1).stderr

    assert "bad.jsonl cannot be written: File exists" in said
    assert not (shell.folder / "elsewhere").exists()
