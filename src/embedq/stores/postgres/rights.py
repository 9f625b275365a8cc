"""Who owns embedq's database objects, and the predefined roles that may use them."""

from contextlib import suppress
from itertools import product

import asyncpg

from embedq.errors import StoreUnusable
from embedq.stores.postgres.address import Address
from embedq.stores.postgres.connection import EXTENSION, Connection, connect
from embedq.stores.postgres.errors import Fault, translated
from embedq.stores.postgres.quoting import quoted

KINDS = {"embedq_reader": "reader", "embedq_writer": "writer", "embedq_worker": "worker"}

# The owner of embedq's objects, and whether that is us, or a role that we may become.
OWNER = """
SELECT r.rolname AS name, pg_catalog.pg_has_role(r.oid, 'SET') AS ours
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_roles r ON r.oid = c.relowner WHERE n.nspname = 'embedq' AND c.relname = 'migration'
"""
# Become the owner until the transaction ends: functions run as their owner, so what is created must be the owner's.
BECOME_OWNER = f"""
SELECT pg_catalog.set_config('role', o.name, true) FROM ({OWNER}) o WHERE o.ours AND o.name <> current_user
"""
# The owner of a schema with our name, if that is neither us nor a role that we trust anyway: it could put functions
# into the schema that are then called instead of ours.
FOREIGN_OWNER = """
SELECT r.rolname FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
WHERE n.nspname = 'embedq' AND NOT r.rolsuper AND r.oid <> d.datdba AND NOT pg_catalog.pg_has_role(r.oid, 'MEMBER')
"""
IS_THERE = "SELECT pg_catalog.count(*) > 0 FROM pg_catalog.pg_namespace n WHERE n.nspname = 'embedq'"
ROLE = "SELECT r.oid, r.rolcanlogin OR r.rolsuper AS odd FROM pg_catalog.pg_roles r WHERE r.rolname = $1"
GRANT_TABLES = "SELECT embedq.grant_tables($1, $2)"
ISSUE = "SELECT embedq.issue_rights()"
MAY_USE = "SELECT pg_catalog.has_schema_privilege($1::oid, $2::text, 'USAGE')"


async def owner(db: Connection) -> tuple[str, bool] | None:
    """Return who owns embedq's objects, and whether we may act as that role; None if nothing is installed yet."""
    found = await db.fetchrow(OWNER)
    return None if found is None else (found["name"], found["ours"])


async def become_owner(db: Connection) -> None:
    """Act as the owner until the transaction ends, where we may."""
    await db.fetchval(BECOME_OWNER)


async def check_owner(db: Connection, act: str) -> None:
    """Refuse what only the owner may do, naming that role: a grant would not help."""
    found = await owner(db)
    if found is not None and not found[1]:
        raise StoreUnusable(f"only {found[0]}, who owns embedq in this database, may {act}: connect as that role")


async def make_roles(address: Address) -> dict[str, list[str]]:
    """Create the predefined roles where missing, and grant their rights in this database; safe to repeat.

    Return those that existed, those created, and the statements that are left for an administrator to run.
    """
    connection = await connect(address)
    try:
        there, made, undone = await _ensure(connection)
        await check_owner(connection, "give rights to others")
        async with connection.transaction():
            await become_owner(connection)
            for name in (*there, *made):
                role = await connection.fetchrow(ROLE, name)
                await connection.execute(GRANT_TABLES, role["oid"], KINDS[name])
            await connection.execute(ISSUE)
        undone += await _ensure_usage(connection, (*there, *made))
    except Fault as error:
        raise translated(error, address.shown) from error
    finally:
        await connection.close()
    return {"there": there, "made": made, "undone": undone}


async def _ensure(db: Connection) -> tuple[list[str], list[str], list[str]]:
    """Create the roles; return those that existed (they are server-wide), those created, and what we may not do."""
    there, made, undone = list[str](), list[str](), list[str]()
    for name in KINDS:
        found = await db.fetchrow(ROLE, name)
        if found is not None and found["odd"]:
            raise StoreUnusable(
                f"the role {name} can log in or is a superuser, so it is not embedq's: rename it, and run "
                "`embedq init --roles` again"
            )
        statement = f"CREATE ROLE {quoted(name)} NOLOGIN"
        try:
            if found is None:
                await db.execute(statement)
            (there if found else made).append(name)
        except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):  # another process was faster
            there.append(name)
        except asyncpg.InsufficientPrivilegeError:
            undone.append(statement)
    return there, made, undone


async def _ensure_usage(db: Connection, names: tuple[str, ...]) -> list[str]:
    """Let the roles use our schema and the vectors' schema, either may have another owner; return what we may not."""
    undone, (ours, _) = list[str](), await owner(db) or ("", False)
    for schema, name in product(("embedq", await db.fetchval(EXTENSION)), (ours, *names)):
        role = (await db.fetchrow(ROLE, name))["oid"]
        if not await db.fetchval(MAY_USE, role, schema):
            statement = f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {quoted(name)}"
            with suppress(asyncpg.InsufficientPrivilegeError):
                await db.execute(statement)
            if not await db.fetchval(MAY_USE, role, schema):  # the server may have sent only a warning
                undone.append(statement)
    return undone
