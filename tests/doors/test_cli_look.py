"""What people see: texts as they are, and pages that fit their screen."""

import io
import json
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console
from tests.doors.conftest import Shell
from tests.doors.test_cli import notes

from embedq.cli.output import console, print_json
from embedq.cli.statuspage import page
from embedq.cli.tables import Column, table
from embedq.model import Counts, Health, HealthReport, Process, Worker, WorkerId, WorkerInfo
from embedq.operator import QueueStatus
from embedq.policy.printable import literal

LONG = "knowledge-base-of-the-weavers-guild"


def drawn(thing: object, width: int) -> list[str]:
    """Draw as a terminal of this width would show it."""
    screen = Console(file=io.StringIO(), width=width, height=100, markup=False, emoji=False, no_color=True)
    screen.print(thing)
    assert isinstance(screen.file, io.StringIO)
    return [line.rstrip() for line in screen.file.getvalue().splitlines()]


def worker(name: str) -> Worker:
    now = datetime.now(UTC)
    info = WorkerInfo(
        id=WorkerId(name), process=Process(host="h", boot="", pid=1, born=""), version="0", embedder="fake"
    )
    return Worker(info=info, started_at=now, seen_at=now, missed_heartbeats=0, alive=True, report=HealthReport())


def status(counts: dict[str, Counts], workers: int = 1) -> QueueStatus:
    return QueueStatus(
        counts=counts,
        paused=False,
        recovery=True,
        workers=[worker(f"host-{number}") for number in range(workers)],
        health=Health.HEALTHY,
        notes=["a note with [bold] and :smile:"],
        oldest_pending={LONG: timedelta(minutes=2)},
        budgets={},
    )


def test_texts_and_names_are_printed_as_they_are(shell: Shell) -> None:
    """Neither markup nor names of emoji are read in what users wrote."""
    text = "[bold]loom[/bold] :smile: ollama:x: \\[red] [/]"
    shell.run("put", "notes", shell.write("n.jsonl", {"id": "[b]:x:", "text": text}))

    page = shell.run("search", "notes", "loom", "-m", "keyword").stdout

    assert text in page
    assert "[b]:x:" in page
    assert "[b]:x:" in shell.run("jobs").stdout
    assert (
        "ollama:x: ollama is not in this version yet" in shell.run("status", code=1, EMBEDQ_EMBEDDER="ollama:x").stderr
    )
    assert "no collection '[bold]:x:'" in shell.run("search", "[bold]:x:", "y", code=1).stderr


def test_a_text_cannot_steer_the_terminal() -> None:
    """Escape sequences and other controls are shown as signs; letters of all scripts stay."""
    assert literal("\x1b[2J\x07 \x9b \x7f") == "␛[2J␇ � ␡"
    assert literal("Ä 織機 🧵\n\t") == "Ä 織機 🧵\n\t"
    assert drawn(table([Column(name="text")], [["a\x1b[2Jb"]], width=40), 40)[-2].strip() == "a␛[2Jb"


TURNED = "n\u202e1\u2066\u200f"


def test_a_name_cannot_turn_the_line() -> None:
    """What turns the direction of writing, ends a line for some, or is half a character is shown escaped."""
    assert literal(TURNED) == "n\\u202e1\\u2066\\u200f"
    assert literal("a\u2028b\ud800") == "a\\u2028b\\ud800"
    assert drawn(table([Column(name="id", key=True)], [[TURNED]], width=40), 40)[-2].strip() == literal(TURNED)


def test_json_is_safe_to_print_and_reads_back(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing in it steers a terminal or turns a line; a program reads the very strings."""
    facts: dict[str, object] = {
        "id": TURNED,
        "names": ["\x1b[2J\x07", "\x9b31m", "\x7f", "a\u2028b", "\ud800", "Ä 織機 🧵"],
        TURNED: 1,
    }

    print_json(facts)

    said = capsys.readouterr().out
    assert json.loads(said) == facts
    assert "Ä 織機 🧵" in said
    assert not [sign for sign in said if sign != "\n" and (not sign.isprintable() or sign in "\u202e\u2066\u200f")]


def test_consoles_read_neither_markup_nor_emoji(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever is printed anywhere, a string is a string."""
    console().print("[red]:x:[/red]")

    assert capsys.readouterr().out == "[red]:x:[/red]\n"


@pytest.mark.parametrize("width", [28, 40, 60, 80, 120])
def test_the_status_fits_the_screen(width: int) -> None:
    """On any screen each collection has one line with its name's beginning, its share and what is pending."""
    busy = Counts(pending=1_234_567, processing=100, completed=5, failed=3, cancelled=2, records=2_000_000, missing=9)
    lines = drawn(
        page(status({LONG: busy, "notes": Counts(completed=1, records=1)}), "sqlite:///x.db", width=width), width
    )

    assert max(len(line) for line in lines) <= width
    [row] = [line for line in lines if line.startswith(" know")]
    assert "99.9 %" in row
    assert "1,234,567" in row
    assert [line for line in lines if line.startswith(" notes")]
    assert ("completed" in "".join(lines)) == (width > 80)


def test_the_total_counts_a_table_in_trouble() -> None:
    """Nobody knows the texts of a table that cannot be followed: neither its row nor the sum calls them embedded."""
    counts = {"docs": Counts(records=300, missing=10, unsure=300), "notes": Counts(records=100, missing=20)}

    lines = drawn(page(status(counts), "sqlite:///x.db", width=100), 100)

    shares = {line.split()[0]: line.split()[2] for line in lines if line.startswith((" docs", " notes", " all"))}
    assert shares == {"docs": "0", "notes": "80", "all": "20"}


def test_many_collections_leave_room_for_the_rest() -> None:
    """On a screen that cannot scroll, the busiest are shown, and how many are not; the notes stay in sight."""
    counts = {f"c{number:03}": Counts(records=1, completed=1) for number in range(300)}
    counts["c123"] = Counts(records=1, failed=1, missing=1)

    lines = drawn(page(status(counts, workers=2), "sqlite:///x.db", width=100, height=30), 100)

    assert len(lines) <= 30
    assert any(line.startswith(" c123") for line in lines)
    shown = [line for line in lines if line.startswith(" c") and "collection" not in line]
    assert any(f"… and {300 - len(shown)} collections with less to do" in line for line in lines)
    assert "a note with [bold] and :smile:" in lines[-1]
    assert len(drawn(page(status(counts), "sqlite:///x.db", width=100), 100)) > 300


def test_one_worker_is_one() -> None:
    """The headline counts as people do."""
    counts = {"notes": Counts(records=1)}
    heads = [drawn(page(status(counts, workers=number), "u", width=80), 80)[0] for number in (0, 1, 2)]

    assert [head.split("   ")[-1] for head in heads] == ["no worker", "1 worker", "2 workers"]


def test_a_narrow_table_keeps_what_matters() -> None:
    """The least worthy column goes first; a name is cut, a sentence goes on in the next line."""
    columns = [
        Column(name="job"),
        Column(name="record", least=8),
        Column(name="when", worth=1),
        Column(name="error", least=20, wraps=True),
    ]
    rows = [
        ["7", "a-very-long-name-of-a-record", "12 m 05 s ago", "The provider refuses this input, as it was told to."]
    ]

    wide, narrow = drawn(table(columns, rows, width=120), 120), drawn(table(columns, rows, width=44), 44)

    assert wide[3] == f" 7    {rows[0][1]}  12 m 05 s ago  {rows[0][3]}"
    assert "when" not in narrow[1]
    assert narrow[3].startswith(" 7    a-very-")
    assert "…" in narrow[3]
    assert " ".join(line[15:].strip() for line in narrow[3:-1]).endswith("as it was told to.")


UUID = "8ca7989b-536b-4335-8c4a-5e013d31f001"


def test_an_id_is_never_cut(shell: Shell) -> None:
    """People copy it: at 80 columns it stands whole in one line, wherever it is listed; the text beside it is cut."""
    shell.run("put", "notes", shell.write("n.jsonl", {"id": UUID, "text": "loom " * 40}))

    for words in (("search", "notes", "loom", "-m", "keyword"), ("jobs",)):
        lines = shell.run(*words, COLUMNS="80").stdout.splitlines()
        assert [line for line in lines if f" {UUID} " in line]
        assert max(map(len, lines)) <= 80


def test_an_id_wider_than_the_screen_goes_on_in_the_next_line() -> None:
    """Not one letter of it is lost."""
    lines = drawn(
        table([Column(name="id", key=True), Column(name="text", least=8)], [[UUID * 3, "x" * 90]], width=60), 60
    )

    assert "".join(line[1:49].strip() for line in lines[3:-1]) == UUID * 3
    assert "…" in lines[3]


def test_names_are_whole_before_a_sentence_gets_more_room() -> None:
    """A sentence loses nothing by going on in the next line; a name that is cut is lost, and a heading looks broken."""
    columns = [Column(name=name, least=8) for name in ("collection", "table", "text")]
    rows = [["knowledge-base", "public.bookings", "title, body", "41,000 of about 300,000 rows looked at"]]

    lines = drawn(table([*columns, Column(name="state", least=12, wraps=True)], rows, width=80), 80)

    assert lines[1].split() == ["collection", "table", "text", "state"]
    assert lines[3].startswith(" knowledge-base  public.bookings  title, body  41,000 of about")


def test_a_pipe_has_no_width(shell: Shell) -> None:
    """What reads it gets whole lines: nothing is cut or broken, however long."""
    name, text = "n" * 100, "loom " * 39
    shell.run("put", name, shell.write("n.jsonl", {"id": UUID, "text": text}))
    del shell.environment["COLUMNS"]
    far = f"sqlite:///{'.' + '/.' * 60}/embedq.db"

    assert text.strip() in shell.run("search", name, "loom", "-m", "keyword").stdout
    head, *rest = shell.run("status", "--url", far).stdout.splitlines()
    assert head.startswith(f"embedq  {far}   running   ")
    assert head.endswith("   no worker")
    assert any(line.startswith(f" {name} ") for line in rest)


def test_a_long_address_breaks_no_line() -> None:
    """The headline is one line, or two where the screen is narrow; an address that has no room is cut at its end."""
    hosts = "postgresql://ada@db1.example.com:5432,db2.example.com:5432/shop?target_session_attrs=read-write"
    counts = {"notes": Counts(records=1)}

    near, far = (drawn(page(status(counts, workers=2), url, width=80), 80) for url in ("sqlite:///x.db", hosts))

    assert near[0] == "embedq  sqlite:///x.db   running   HEALTHY   2 workers"
    assert far[0] == f"embedq  {hosts}"[:79] + "…"
    assert far[1] == "running   HEALTHY   2 workers"


def test_the_help_breaks_no_sentence(shell: Shell) -> None:
    """A paragraph of a docstring is set anew for the screen, whatever its lines in the source."""
    page = shell.run("import", "--help", COLUMNS="200").stdout

    assert "so it holds for every process. The queue resumes even if the import fails; if it was paused before" in page


def test_counts_are_said_as_people_do(shell: Shell) -> None:
    """One record, two records."""
    assert "1 record into notes" in shell.run("put", "notes", shell.write("a.jsonl", *notes(1))).stdout
    assert "2 records into notes" in shell.run("put", "notes", shell.write("b.jsonl", *notes(2))).stdout


def test_a_number_that_is_too_large_is_looked_for_as_text(shell: Shell) -> None:
    """A shell knows no types: a long number may well be a text."""
    number = "9" * 30
    shell.run("put", "books", shell.write("b.jsonl", {"id": "a", "text": "loom", "attributes": {"isbn": number}}))

    assert len(shell.facts("search", "books", "loom", "-m", "keyword", "-f", f"isbn={number}")["hits"]) == 1
