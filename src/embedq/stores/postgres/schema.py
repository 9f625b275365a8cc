"""Install and upgrade the schema."""

import re
from importlib import resources

import asyncpg

from embedq import __version__
from embedq.errors import NotFound, StoreUnusable
from embedq.stores.postgres import functions, rights
from embedq.stores.postgres.address import Address
from embedq.stores.postgres.connection import EXTENSION, Connection, connect
from embedq.stores.postgres.errors import Fault, state_of, translated
from embedq.stores.postgres.quoting import with_vectors_of

LOCK = 7308894613905473  # held while installing: other processes wait, and find the work done
LEAST_SERVER, LEAST_VECTOR = 16, (0, 8)  # 0.8: iterative index scans, which continue until a filter is satisfied
NOTE = "INSERT INTO embedq.migration (version) VALUES ($1)"
VERSIONS = """
SELECT current_setting('server_version_num')::int / 10000 AS server,
  (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vector') AS vector
"""
BEGIN = """
CREATE TABLE IF NOT EXISTS embedq.migration (version int PRIMARY KEY, installed_at timestamptz NOT NULL DEFAULT now())
"""


def migrations() -> list[tuple[int, str]]:
    """List the schema's versions, oldest first."""
    folder = resources.files(__package__).joinpath("schema")
    scripts = sorted((item.name, item.read_text()) for item in folder.iterdir() if item.name.endswith(".sql"))
    return [(int(name[:3]), script) for name, script in scripts]


async def install(address: Address) -> None:
    """Bring the database to this version's schema; safe to repeat and to run concurrently."""
    connection = await connect(address)
    try:
        await _check_versions(connection, address)
        await _migrate(connection, address)
    except Fault as error:
        raise translated(error, address.shown) from error
    finally:
        await connection.close()


async def require(address: Address) -> None:
    """Refuse a database that lacks this version's schema: a caller that only reads must not change it."""
    newest = migrations()[-1][0]
    connection = await connect(address)
    try:
        await _check_versions(connection, address)
        found = await _installed(connection, address, newest)
        if found == 0:
            raise NotFound(f"{address.shown} has no embedq in it: `embedq up` or `embedq init` installs it")
        if found < newest:
            raise StoreUnusable(f"{address.shown} has schema {found}, this embedq needs {newest}: run `embedq init`")
        if not await functions.are_ours(connection, address):
            raise StoreUnusable(f"{address.shown} has the functions of an older embedq: run `embedq init`")
    except Fault as error:
        raise translated(error, address.shown) from error
    finally:
        await connection.close()


async def check_version(connection: Connection, address: Address) -> None:
    """Refuse to continue in a database that a newer embedq has upgraded."""
    await _installed(connection, address, migrations()[-1][0])
    if not await functions.are_ours(connection, address):
        raise StoreUnusable(f"{address.shown} has the functions of another embedq: run the same version everywhere")


async def _migrate(connection: Connection, address: Address) -> None:
    known = migrations()
    newest = known[-1][0]
    if await _is_current(connection, address, newest):
        if await connection.fetchval(EXTENSION) is None:
            raise StoreUnusable(
                f"the vector extension of {address.shown} was dropped, and every vector with it: restore a backup, or "
                "DROP SCHEMA embedq CASCADE and run `embedq init` to begin anew"
            )
        return
    await _check_owner(connection, address)
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        if not await connection.fetchval(rights.IS_THERE):
            await connection.execute("CREATE SCHEMA embedq")
        schema = await _ensure_extension(connection, address)
        await rights.become_owner(connection)
        await connection.execute(BEGIN)
        installed = await _installed(connection, address, newest)  # another process may have been faster
        await connection.execute("SET LOCAL search_path = embedq, pg_temp")
        for version, script in known:
            if version > installed:
                await connection.execute(with_vectors_of(schema, script))
                await connection.execute(NOTE, version)
        if not await functions.are_ours(connection, address):
            await functions.replace(connection, schema)


async def _check_owner(connection: Connection, address: Address) -> None:
    """Refuse to upgrade without the rights: the server would name a right that should not be granted."""
    found, foreign = await rights.owner(connection), await connection.fetchval(rights.FOREIGN_OWNER)
    if found is None and foreign is not None:
        raise StoreUnusable(
            f"the schema embedq of {address.shown} belongs to {foreign}, who could put anything into it: drop it, or "
            "ALTER SCHEMA embedq OWNER to the role that runs `embedq init`"
        )
    if found is not None and not found[1]:
        raise StoreUnusable(
            f"{address.shown} has another version of embedq than this one ({__version__}), and only {found[0]} may "
            "change that: run `embedq init` as that role, or the same version everywhere"
        )


async def _is_current(connection: Connection, address: Address, newest: int) -> bool:
    if await _installed(connection, address, newest) < newest:
        return False
    return await functions.are_ours(connection, address)


async def _check_versions(connection: Connection, address: Address) -> None:
    """Refuse versions too old for our statements: they would fail later, and one by one."""
    found = await connection.fetchrow(VERSIONS)
    if found["server"] < LEAST_SERVER:
        raise StoreUnusable(
            f"{address.shown} is PostgreSQL {found['server']}, embedq needs {LEAST_SERVER} or newer: upgrade the server"
        )
    if found["vector"] is not None and _numbers(found["vector"]) < LEAST_VECTOR:
        least = ".".join(map(str, LEAST_VECTOR))
        raise StoreUnusable(
            f"{address.shown} has pgvector {found['vector']}, embedq needs {least} or newer: install it on the server, "
            "and as a superuser run ALTER EXTENSION vector UPDATE in this database"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))


async def _installed(connection: Connection, address: Address, newest: int) -> int:
    if await connection.fetchval("SELECT to_regclass('embedq.migration') IS NULL"):
        return 0
    version = await connection.fetchval("SELECT coalesce(max(version), 0) FROM embedq.migration")
    if version > newest:
        raise StoreUnusable(
            f"{address.shown} has schema version {version}, this embedq knows {newest}: upgrade embedq, "
            "or open another database"
        )
    return int(version)


async def _ensure_extension(connection: Connection, address: Address) -> str:
    """Find the vector extension, or install it; return its schema."""
    schema = await connection.fetchval(EXTENSION)
    if schema is None:
        try:
            await connection.execute("SET LOCAL search_path TO DEFAULT")  # it is created where this user's objects go
            await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except asyncpg.PostgresError as error:
            cause = "is not installed on its host" if state_of(error) != "42501" else "may not be created by this user"
            raise StoreUnusable(
                f"{address.shown} has no vector extension, and it {cause}: install pgvector, and as a superuser "
                "run CREATE EXTENSION vector in this database"
            ) from error
        await _check_versions(connection, address)
        schema = await connection.fetchval(EXTENSION)
    return str(schema)
