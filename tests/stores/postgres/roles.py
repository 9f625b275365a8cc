"""The roles of the page about PostgreSQL, in a database of their own."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio
from tests.installed import run_apart

from embedq.stores.postgres import PostgresStore
from embedq.testing.postgres import PostgresAddress

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


def statements(names: dict[str, str]) -> str:
    """Read the page's statements, for these logins."""
    found = STATEMENTS.search(PAGE.read_text())
    assert found is not None
    return re.sub(rf"\b({'|'.join(LOGINS)})\b", lambda name: names[name[0]], found[1])


@dataclass(frozen=True)
class Granted:
    """A database in which all is granted, for tests to copy; the roles are the server's, and go with it."""

    database: str
    names: dict[str, str]


@pytest.fixture(scope="session")
def granted18(postgres18: PostgresAddress) -> Iterator[Granted]:
    yield from grant_on(postgres18)


@pytest.fixture(scope="session")
def granted16(postgres16: PostgresAddress) -> Iterator[Granted]:
    yield from grant_on(postgres16)


@pytest.fixture
def granted(request: pytest.FixtureRequest, postgres_version: int) -> Granted:
    """Say what to copy on the server of this test."""
    found: Granted = request.getfixturevalue(f"granted{postgres_version}")
    return found


def grant_on(server: PostgresAddress) -> Iterator[Granted]:
    """Make the database and its roles."""
    mark = uuid4().hex[:8]
    made = Granted(f"granted_{mark}", {name: f"{name}_{mark}" for name in LOGINS})
    run_apart(_grant(server.create_database(made.database), made))
    yield made
    server.drop_database(made.database)
    for role in made.names.values():
        server.query(f"DROP ROLE {role}")


async def _grant(url: str, made: Granted) -> None:
    """Install as the owner, make the ready roles as an administrator, and grant what the page grants."""
    db, owner = await asyncpg.connect(url), made.names["ada"]
    for role in made.names.values():
        await db.execute(f"CREATE ROLE {role} LOGIN")
    await db.execute(f"CREATE EXTENSION vector; GRANT CREATE ON DATABASE {made.database} TO {owner}")
    await db.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
    await db.execute(f"GRANT CREATE ON SCHEMA public TO {made.names['stranger']}")
    await (await PostgresStore.open(url.replace("postgres@", f"{owner}@"))).close()
    store = await PostgresStore.open(url)
    await store.make_roles()
    await store.close()
    await db.execute(statements(made.names))
    await db.close()


@pytest_asyncio.fixture
async def roles(postgres_url: str, granted: Granted) -> Roles:
    """A copy of that database, by who connects."""
    db = await asyncpg.connect(postgres_url)
    database = await db.fetchval("SELECT current_database()")
    await db.execute(f"GRANT CREATE ON DATABASE {database} TO {granted.names['ada']}")  # no copy has it
    await db.close()
    logins = (postgres_url.replace("postgres@", f"{granted.names[name]}@") for name in LOGINS)
    return Roles(granted.names, postgres_url, *logins)
