"""Which database a URL opens, and what the doctor looks at beside it."""

import os
from pathlib import Path

import pytest

from embedq.app import load, start
from embedq.app.openers import OPENERS, Place, open_store, opener, probes
from embedq.errors import NotFound, SettingsError
from embedq.telemetry import Telemetry

PASSWORD = "loom-and-mill"  # noqa: S105 a word to look for


def place(url: str, *, make: bool = True, variable: str = "EMBEDQ_URL") -> Place:
    return Place(url=url, variable=variable, settings=load(), telemetry=Telemetry(), make=make)


@pytest.mark.parametrize(
    ("url", "scheme"),
    [
        ("sqlite:///notes.db", "sqlite"),
        ("postgresql://ada@h/shop", "postgresql"),
        ("postgres://ada@h/shop", "postgres"),
        ("postgresql+asyncpg://ada@h/shop", "postgresql"),
        ("POSTGRESQL://ada@h/shop", "postgresql"),
    ],
)
def test_a_scheme_has_an_opener(url: str, scheme: str) -> None:
    """Whatever driver somebody writes behind it, and in large letters too."""
    assert opener(place(url)) is OPENERS[scheme]


@pytest.mark.parametrize("url", [f"mysql://ada:{PASSWORD}@h/shop", "notes.db", f"neo4j://ada:{PASSWORD}@h"])
def test_what_nobody_opens_is_refused_by_the_variable_that_names_it(url: str) -> None:
    """The refusal has no password in it."""
    with pytest.raises(SettingsError, match="EMBEDQ_QUEUE_URL") as refusal:
        opener(place(url, variable="EMBEDQ_QUEUE_URL"))

    assert PASSWORD not in str(refusal.value)


@pytest.mark.parametrize("url", ["sqlite:///", "sqlite:///:memory:", "sqlite://notes.db", "sqlite:///notes.db?mode=ro"])
async def test_a_sqlite_url_that_names_no_file_is_refused(url: str) -> None:
    """With how to write one."""
    with pytest.raises(SettingsError, match=r"sqlite:///relative\.db"):
        await open_store(place(url))


async def test_a_file_that_is_not_there_is_made_only_if_asked_for(tmp_path: Path) -> None:
    """Whoever only looks leaves nothing behind."""
    url = f"sqlite:///{tmp_path}/notes.db"
    with pytest.raises(NotFound, match="embedq init"):
        await open_store(place(url, make=False))
    assert os.listdir(tmp_path) == []  # noqa: PTH208 Path would be refused here, since it blocks

    await (await open_store(place(url))).close()

    assert (tmp_path / "notes.db").exists()


def test_the_disk_is_looked_at_where_it_is_this_hosts() -> None:
    """Beside a file, and not beside a server."""
    assert len(probes(place("sqlite:///notes.db"))) == 1
    assert len(probes(place("postgresql://ada@h/shop"))) == 0


async def test_an_application_has_its_operator_from_the_start(tmp_path: Path) -> None:
    """What `embedq.open` hands out has the operator that the application has."""
    async with start(load(url=f"sqlite:///{tmp_path}/notes.db", embedder="fake"), quiet=True) as app:
        assert app.client.operator is app.operator
