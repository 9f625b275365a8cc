"""What pages tell administrators to run does what the pages say."""

import re
from pathlib import Path

import asyncpg
import pytest
from tests.stores.postgres.tables import attach, catch_up

from embedq.stores.postgres import PostgresStore
from embedq.testing.postgres import PostgresServer
from embedq.testing.stores.stage import DIMENSIONS, NOON, declaration

HOWTO = Path(__file__).parents[3] / "docs" / "howto"
LEFT = """
SELECT (SELECT count(*) FROM pg_namespace WHERE nspname = 'embedq') AS schemas,
  (SELECT count(*) FROM pg_roles WHERE rolname ~ '^embedq_') AS roles,
  (SELECT count(*) FROM pg_trigger WHERE NOT tgisinternal) AS triggers
"""


def statements(page: str, heading: str) -> list[str]:
    """Read the statements below a heading, one by one."""
    section = (HOWTO / page).read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    found = "".join(re.findall(r"```postgresql\n(.*?)```", section, re.DOTALL))
    return [one.strip() for one in found.split(";") if one.strip()]


async def run(server: PostgresServer, database: str, wanted: list[str]) -> None:
    """Run statements as an administrator, each by itself."""
    db = await asyncpg.connect(server.url(database))
    for statement in wanted:
        await db.execute(statement)
    await db.close()


@pytest.mark.parametrize("postgres_version", [18, 16])
async def test_the_pages_of_an_administrator(postgres_version: int) -> None:
    """After the first page an ordinary role needs nobody to install all; after the last nothing of embedq is left."""
    prepared = statements("on-postgresql.md", "What an administrator runs once")
    turn = next(n for n, one in enumerate(prepared) if "from here on in shop" in one)
    with PostgresServer(postgres_version, fsync=False) as server:
        await run(server, "postgres", prepared[:turn])
        await run(server, "shop", prepared[turn:])

        ada = server.url("shop").replace("postgres@", "ada@")
        store = await PostgresStore.open(ada)
        assert (await store.make_roles())["undone"] == []
        await store.declare(declaration(), now=NOON)
        admin = await asyncpg.connect(server.url("shop"))
        await admin.execute(f"CREATE TABLE docs (id int PRIMARY KEY, body text, e vector({DIMENSIONS}))")
        await admin.execute("ALTER TABLE docs OWNER TO ada; INSERT INTO docs VALUES (1, 'one')")
        await attach(store)
        await catch_up(store)
        await store.close()

        drop, extension, roles = statements("remove-it.md", "From PostgreSQL")
        await run(server, "shop", [drop])
        assert await admin.fetchval("SELECT e IS NOT NULL FROM docs WHERE id = 1")  # the table keeps its vectors
        with pytest.raises(asyncpg.DependentObjectsStillExistError):
            await run(server, "shop", [extension])
        await admin.execute("ALTER TABLE docs DROP COLUMN e")
        await run(server, "shop", [extension, roles])
        assert tuple(await admin.fetchrow(LEFT)) == (0, 0, 0)
        assert await admin.fetchval("SELECT body FROM docs") == "one"
        await admin.close()
