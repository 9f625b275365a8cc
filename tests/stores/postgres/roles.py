"""The roles of the page about PostgreSQL, in a database of their own."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest_asyncio

from embedq.stores.postgres import PostgresStore

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "on-postgresql.md"
STATEMENTS = re.compile(r"## Roles and grants.*?```postgresql\n(.*?)```", re.DOTALL)
LOGINS = ("ada", "ada_worker", "shop_worker", "shop_app", "shop_report", "stranger")


@dataclass(frozen=True)
class Roles:
    """URLs of one database, by who connects; `names` are the server's, by the page's."""

    names: dict[str, str]
    admin: str
    owner: str  # the page's `ada`
    acting_owner: str  # becomes ada at login
    worker: str
    writer: str
    reader: str
    stranger: str  # may connect, and create in `public`


def granted(names: dict[str, str]) -> str:
    """Read the page's statements, for these logins."""
    found = STATEMENTS.search(PAGE.read_text())
    assert found is not None
    return re.sub(rf"\b({'|'.join(LOGINS)})\b", lambda name: names[name[0]], found[1])


@pytest_asyncio.fixture
async def roles(postgres_url: str) -> AsyncIterator[Roles]:
    """Install as the owner, make the ready roles as an administrator, and grant what the page grants."""
    db = await asyncpg.connect(postgres_url)
    database = await db.fetchval("SELECT current_database()")
    names = {name: f"{name}_{database[-8:]}" for name in LOGINS}
    for role in names.values():
        await db.execute(f"CREATE ROLE {role} LOGIN")
    await db.execute(f"CREATE EXTENSION vector; GRANT CREATE ON DATABASE {database} TO {names['ada']}")
    await db.execute(f"GRANT CREATE ON SCHEMA public TO PUBLIC; GRANT CREATE ON SCHEMA public TO {names['stranger']}")
    urls = {name: postgres_url.replace("postgres@", f"{role}@") for name, role in names.items()}
    await (await PostgresStore.open(urls["ada"])).close()
    store = await PostgresStore.open(postgres_url)
    await store.make_roles()
    await store.close()
    await db.execute(granted(names))
    logins = (urls[name] for name in LOGINS)
    yield Roles(names, postgres_url, *logins)
    for role in reversed(names.values()):
        await db.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")
    await db.close()
