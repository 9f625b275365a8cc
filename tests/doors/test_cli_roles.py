"""The command that makes the database's roles."""

import asyncio
import re
from collections.abc import Iterator

import asyncpg
import pytest
from tests.doors.conftest import Shell

READY = ["embedq_reader", "embedq_writer", "embedq_worker"]


@pytest.fixture
def plain_url(postgres_url: str) -> Iterator[str]:
    """The test's database, for an owner who may not create roles."""
    name = f"plain_{postgres_url[-8:]}"

    async def run(*statements: str) -> None:
        db = await asyncpg.connect(postgres_url)
        for statement in statements:
            await db.execute(statement)
        await db.close()

    asyncio.run(run("CREATE EXTENSION vector", f"CREATE ROLE {name} LOGIN"))
    asyncio.run(run(f"GRANT CREATE ON DATABASE {postgres_url.rpartition('/')[2]} TO {name}"))
    yield postgres_url.replace("postgres@", f"{name}@")
    asyncio.run(run(f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}"))


def test_an_administrator_makes_roles(shell: Shell, postgres_url: str) -> None:
    """They are there after the first time, and the second changes nothing."""
    shell.environment["EMBEDQ_URL"] = postgres_url
    said = shell.run("init", "--roles").stdout
    facts = shell.facts("init", "--roles")

    assert "embedq_reader, embedq_writer, embedq_worker have their rights here" in said
    assert (facts["status"], facts["there"], facts["made"], facts["undone"]) == ("ready", READY, [], [])


def test_who_may_not_is_told_the_statements(shell: Shell, plain_url: str, postgres_url: str) -> None:
    """In one sentence, or as facts, and by the exit code: the roles where there are none, else what they lack."""
    shell.environment["EMBEDQ_URL"] = plain_url
    shell.run("init")

    async def hide_vectors() -> None:
        db = await asyncpg.connect(postgres_url)
        await db.execute("CREATE SCHEMA extensions; ALTER EXTENSION vector SET SCHEMA extensions")
        await db.execute(f"GRANT USAGE ON SCHEMA extensions TO plain_{postgres_url[-8:]}")
        await db.close()

    asyncio.run(hide_vectors())
    refused = shell.run("init", "--roles", code=1)
    assert "an administrator runs " in refused.stderr
    facts = shell.facts("init", "--roles", code=1)

    assert all(statement in refused.stderr for statement in facts["undone"])
    assert facts["status"] == "unfinished"
    assert all(re.match("CREATE ROLE|GRANT USAGE ON SCHEMA", statement) for statement in facts["undone"])
    assert facts["undone"]


def test_a_file_knows_no_roles(shell: Shell) -> None:
    """On SQLite it is refused, and no file is made."""
    refused = shell.run("init", "--roles", code=1)
    assert "knows no roles" in refused.stderr
