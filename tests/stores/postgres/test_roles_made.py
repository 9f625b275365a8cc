"""Making the ready roles, and what an upgrade makes of the grants of older versions."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from tests.stores.postgres.older import install_as_0_2
from tests.stores.postgres.roles import Roles
from tests.stores.postgres.tables import attach

from embedq.errors import StoreUnusable
from embedq.model import EmbedderName
from embedq.stores.postgres import PostgresStore, rights
from embedq.testing.stores.stage import NOON, declaration, embed_all, write

CODE = Path(rights.__file__).parent
EIGHT = EmbedderName(provider="fake", model="fake", dimensions=8)
CALLS = re.compile(r"\bembedq\.(\w+)\(")
INLINED = {"instant_in"}  # by has_instant, whose caller then calls it
FOR_SQL = {"delete"}  # called by people, in SQL alone
OWNERS = {"grant_tables", "issue_rights", "ring", "shape"}  # what only the owner's commands and triggers call
# What embedq 0.2 said that an application needs.
GRANTS_OF_0_2 = """
GRANT USAGE ON SCHEMA embedq TO {app};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA embedq TO {app};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA embedq TO {app};
ALTER DEFAULT PRIVILEGES FOR ROLE {ada} IN SCHEMA embedq GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {app};
ALTER DEFAULT PRIVILEGES FOR ROLE {ada} IN SCHEMA embedq GRANT USAGE ON SEQUENCES TO {app};
"""


@pytest_asyncio.fixture
async def older(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[str, str]]:
    """Install as version 0.2, with its grants; answer with the owner's and the application's URLs."""
    db = await asyncpg.connect(postgres_url)
    database = await db.fetchval("SELECT current_database()")
    names = {name: f"{name}_{database[-8:]}" for name in ("ada", "app")}
    await db.execute("CREATE EXTENSION vector")
    for role in names.values():
        await db.execute(f"CREATE ROLE {role} LOGIN")
    await db.execute(f"GRANT CREATE ON DATABASE {database} TO {names['ada']}")
    ada, app = (postgres_url.replace("postgres@", f"{role}@") for role in names.values())
    await install_as_0_2(ada, monkeypatch)
    await db.execute(GRANTS_OF_0_2.format(**names))
    yield ada, app
    for role in reversed(names.values()):
        await db.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")
    await db.close()


async def test_the_grants_of_0_2_keep_working_and_give_no_more(older: tuple[str, str]) -> None:
    """After an upgrade, and after the next: put, lease, settle and search, but no table of ours is written to."""
    ada, app = older
    for digest in (None, "of another source"):
        owner, db = await PostgresStore.open(ada), await asyncpg.connect(ada)
        if digest is not None:
            await owner.close()
            await db.execute("UPDATE embedq.functions SET digest = $1", digest)
            owner = await PostgresStore.open(ada)
        store = await PostgresStore.open(app)
        newer = EmbedderName(provider="fake", model=f"m{digest}", dimensions=8)
        await store.declare(declaration(f"notes{digest}", embedder=newer), now=NOON)
        await store.declare(declaration(embedder=EIGHT), now=NOON)
        await write(store, f"weaving {digest}", "a")
        await embed_all(store)
        assert (await store.counts())["notes"].missing == 0
        writable = await db.fetch("""
            SELECT c.relname FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
            WHERE c.relnamespace = 'embedq'::regnamespace AND a.grantee <> c.relowner AND a.privilege_type <> 'SELECT'
        """)
        assert {row["relname"] for row in writable} == {"worker"}  # `collection` by column
        for one in (owner, store, db):
            await one.close()


async def test_an_upgrade_by_another_role_is_refused_with_the_owners_name(older: tuple[str, str]) -> None:
    """An application of the new version that starts first must not be told to get the right to make schemas."""
    with pytest.raises(StoreUnusable, match=r"only ada_\w+ may change that: run `embedq init` as that role"):
        await PostgresStore.open(older[1])


async def test_roles_are_made_once_and_again(roles: Roles) -> None:
    """Roles are the whole server's: one that another database needed first is given its rights here, too."""
    db = await asyncpg.connect(roles.admin)
    store = await PostgresStore.open(roles.owner)
    again = await store.make_roles()
    await store.close()

    assert again == {"there": list(rights.KINDS), "made": [], "undone": []}
    assert await db.fetchval("SELECT has_table_privilege('embedq_reader', 'embedq.record', 'SELECT')")
    await db.close()


async def test_who_may_not_create_roles_is_told_what_to_run(roles: Roles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each statement as an administrator writes it; nothing else fails."""
    name = f"embedq_{roles.names['ada']}"
    monkeypatch.setitem(rights.KINDS, name, "reader")
    store = await PostgresStore.open(roles.owner)
    made = await store.make_roles()
    assert made["undone"] == [f'CREATE ROLE "{name}" NOLOGIN']

    db = await asyncpg.connect(roles.admin)
    await db.execute(made["undone"][0])
    assert (await store.make_roles())["undone"] == []
    await db.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")
    await db.close()
    await store.close()


async def test_a_role_that_is_not_ours_is_left_alone(roles: Roles, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that can log in belongs to somebody."""
    monkeypatch.setitem(rights.KINDS, roles.names["stranger"], "worker")
    store = await PostgresStore.open(roles.owner)
    with pytest.raises(StoreUnusable, match="can log in"):
        await store.make_roles()
    await store.close()


async def test_only_the_owner_gives_rights_and_attaches(roles: Roles) -> None:
    """A worker is told who can; and who can attach and detach."""
    store = await PostgresStore.open(roles.worker)
    for act in (store.make_roles(), attach(store), store.detach("docs")):
        with pytest.raises(StoreUnusable, match=f"only {roles.names['ada']}, who owns embedq"):
            await act
    await store.close()


async def test_vectors_in_a_schema_of_their_own_need_one_grant_more(roles: Roles) -> None:
    """It is given, or named for who can give it."""
    db = await asyncpg.connect(roles.admin)
    await db.execute("CREATE SCHEMA extensions; ALTER EXTENSION vector SET SCHEMA extensions")
    owner, admin = await PostgresStore.open(roles.owner), await PostgresStore.open(roles.admin)
    assert (await owner.make_roles())["undone"] == [
        f'GRANT USAGE ON SCHEMA "extensions" TO "{name}"' for name in (roles.names["ada"], *rights.KINDS)
    ]
    assert (await admin.make_roles())["undone"] == []

    store = await PostgresStore.open(roles.worker)
    await store.declare(declaration(embedder=EIGHT), now=NOON)
    await write(store, "weaving", "a")
    await embed_all(store)
    assert (await store.counts())["notes"].missing == 0
    for one in (owner, admin, store, db):
        await one.close()


async def test_a_strangers_schema_of_our_name_is_refused(postgres_url: str) -> None:
    """Whoever owns it could put functions into it that are called in the place of ours."""
    db = await asyncpg.connect(postgres_url)
    database = await db.fetchval("SELECT current_database()")
    ada, eve = f"ada_{database[-8:]}", f"eve_{database[-8:]}"
    await db.execute(f"CREATE EXTENSION vector; CREATE ROLE {ada} LOGIN; CREATE ROLE {eve} LOGIN")
    await db.execute(f"CREATE SCHEMA embedq AUTHORIZATION {eve}; GRANT ALL ON SCHEMA embedq TO {ada}")
    with pytest.raises(StoreUnusable, match=f"belongs to {eve}"):
        await PostgresStore.open(postgres_url.replace("postgres@", f"{ada}@"))
    await db.execute(f"DROP OWNED BY {ada}, {eve} CASCADE; DROP ROLE {ada}; DROP ROLE {eve}")
    await db.close()


async def test_every_function_that_is_called_is_somebodys_to_call(roles: Roles) -> None:
    """A call in our code whose function no role may call would be found by a user."""
    db = await asyncpg.connect(roles.admin)
    callable_ = {
        row["name"] for row in await db.fetch("SELECT e.function::regproc::text AS name FROM embedq.entry_points() e")
    }
    await db.close()
    called = {name for file in CODE.rglob("*.py") for name in CALLS.findall(file.read_text())}
    generated = {name for name in called if name.endswith("_")}
    assert (called | FOR_SQL | INLINED) - generated - OWNERS == {name.removeprefix("embedq.") for name in callable_}
