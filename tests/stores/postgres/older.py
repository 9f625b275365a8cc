"""Databases as older versions have left them."""

import pytest

from embedq.stores.postgres import functions, schema
from embedq.stores.postgres.address import parse

FIRST_WITHOUT_FUNCTIONS = 10  # the migrations before brought the functions of 0.2 along


async def install_as_0_2(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make what version 0.2 made."""
    with monkeypatch.context() as patched:
        older = [(number, script) for number, script in schema.migrations() if number < FIRST_WITHOUT_FUNCTIONS]
        patched.setattr(schema, "migrations", lambda: older)
        patched.setattr(functions, "INSTALLED", "SELECT '0.2.0' AS version, NULL AS digest")
        patched.setattr(functions, "REMOVE", "SELECT 1")
        patched.setattr(functions, "sources", tuple)
        patched.setattr(functions, "ISSUE", "SELECT 1")
        patched.setattr(functions, "NOTE", "SELECT $1::text, $2::text")
        await schema.install(parse(url))
