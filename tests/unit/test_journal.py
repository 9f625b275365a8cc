"""The journal: one JSON line per event, and nothing in it that should not be."""

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from embedq.journal import Journal
from embedq.model import JobStatus
from embedq.telemetry import Event, Telemetry


def written(event: Event, *, level: str = "info", log_text: bool = False, **facts: object) -> dict[str, Any]:
    stream = io.StringIO()
    journal = Journal(stream=stream, level="debug", log_text=log_text, secrets=["sk-secret-123", "x"])
    Telemetry(journal).emit(event, level=level, **facts)
    line: dict[str, Any] = json.loads(stream.getvalue())
    return line


def test_a_line_says_when_how_grave_and_what() -> None:
    """Each line has a UTC moment, a level, an event, and its facts in plain JSON."""
    line = written(
        Event.SETTLED,
        level="warning",
        status=JobStatus.FAILED,
        took=timedelta(seconds=1.5),
        at=datetime(2026, 1, 2, tzinfo=UTC),
        hash=b"\x01\xff",
        odd=float("nan"),
    )

    assert datetime.fromisoformat(line["timestamp"]).utcoffset() == timedelta(0)
    assert (line["level"], line["event"]) == ("warning", "settled")
    assert (line["status"], line["took"], line["hash"], line["odd"]) == ("failed", 1.5, "01ff", "nan")
    assert line["at"] == "2026-01-02T00:00:00+00:00"


def test_texts_are_length_and_hash_unless_asked_for() -> None:
    """A text stays out of the log, at any depth; a count of texts is no text."""
    line = written(Event.JOB_FAILED, text="private words", texts=12, context={"query": "private words"})
    assert "private" not in json.dumps(line)
    assert line["text"] == line["context"]["query"]
    assert line["text"]["length"] == 13
    assert line["texts"] == 12

    assert written(Event.JOB_FAILED, log_text=True, text="private words")["text"] == "private words"


def test_keys_are_scrubbed_wherever_they_hide() -> None:
    """A provider may repeat a key in its error: it never reaches the log."""
    line = written(
        Event.JOB_FAILED, error="bad key sk-secret-123!", stack=["at sk-secret-123"], deep={"a": {"b": "sk-secret-123"}}
    )

    assert "sk-secret-123" not in json.dumps(line)
    assert line["error"] == "bad key [hidden]!"


def test_lone_surrogates_can_be_logged() -> None:
    """What cannot be encoded is escaped, not a reason to lose the line."""
    assert written(Event.JOB_FAILED, error="\ud800")["error"] == "\\ud800"


@pytest.mark.parametrize(("level", "lines"), [("debug", 0), ("info", 1), ("critical", 1)])
def test_only_what_is_grave_enough_is_written(level: str, lines: int) -> None:
    """The least level is a floor."""
    stream = io.StringIO()

    Journal(stream=stream, level="info")(Event.PUT, level, {})

    assert len(stream.getvalue().splitlines()) == lines


def test_a_closed_terminal_does_not_hurt() -> None:
    """A log that cannot be written must not stop the queue."""
    stream = io.StringIO()
    stream.close()

    Journal(stream=stream)(Event.PUT, "info", {})


def test_a_line_is_safe_to_print() -> None:
    """A name in the log neither steers a terminal nor turns a line, and is read back as it was."""
    stream = io.StringIO()
    Telemetry(Journal(stream=stream)).emit(Event.PUT, collection="n\u202e1\x9b31m\x7f")

    assert json.loads(stream.getvalue())["collection"] == "n\u202e1\x9b31m\x7f"
    assert stream.getvalue().rstrip("\n").isprintable()


class Screen(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.mark.parametrize(
    ("form", "stream", "is_json"),
    [
        ("auto", Screen, False),
        ("auto", io.StringIO, True),
        ("json", Screen, True),
        ("text", io.StringIO, False),
    ],
)
def test_people_read_text_and_programs_json(form: str, stream: type[io.StringIO], *, is_json: bool) -> None:
    """A terminal gets readable lines and a pipe JSON, unless the setting says otherwise."""
    target = stream()
    Journal(stream=target, form=form)(Event.SETTLED, "warning", {"jobs": 3, "error": "two\nlines"})

    [line] = target.getvalue().splitlines()
    assert line.startswith("{") == is_json
    assert "settled" in line
    assert is_json or "two lines" in line


def test_a_text_line_keeps_secrets_and_steers_nothing() -> None:
    """Keys and texts stay out of it as of JSON, and no fact controls the terminal or looks like another line."""
    target = Screen()
    journal = Journal(stream=target, form="text", secrets=["sk-secret-123"])
    facts = {
        "text": "private words",
        "error": "sk-secret-123 \x1b[2J",
        "deep": {"a": "\x1b[2J"},
        "stack": "at one\nat two",
    }

    journal(Event.JOB_FAILED, "error", facts)

    shown = target.getvalue()
    assert "sk-secret-123" not in shown
    assert "private" not in shown
    assert "\x1b[2J" not in shown
    assert shown.endswith("at one\nat two\n")


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_line_is_written_where_letters_are_missing(form: str) -> None:
    """A stream of ASCII loses no line, and JSON reads back as it was."""
    raw = io.BytesIO()
    target = io.TextIOWrapper(raw, encoding="ascii", errors="backslashreplace" if form == "text" else "strict")
    Journal(stream=target, form=form)(Event.JOB_FAILED, "error", {"error": "Ä 織機"})
    target.flush()

    assert raw.getvalue().isascii()
    assert form == "text" or json.loads(raw.getvalue())["error"] == "Ä 織機"
