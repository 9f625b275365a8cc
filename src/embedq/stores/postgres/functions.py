"""The database's functions: not migrated, but replaced as a whole by an embedq version that has others."""

import hashlib
from functools import cache
from importlib import resources

from embedq import __version__
from embedq.errors import StoreUnusable
from embedq.stores.postgres.address import Address
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.quoting import with_vectors_of
from embedq.stores.postgres.rights import ISSUE

WRITERS = ("templates.py", "generated_sql.py")  # sources of the functions and triggers of attached tables
INSTALLED = "SELECT version, digest FROM embedq.functions"
NOTE = """
INSERT INTO embedq.functions (version, digest) VALUES ($1, $2)
ON CONFLICT (one) DO UPDATE SET version = excluded.version, digest = excluded.digest
"""

# Remove the functions of another version, and their result types. What was generated for one table or one space
# (its name ends in a number) stays, and so does what belongs to an extension.
REMOVE = """
DO $$
DECLARE
  f regprocedure;
  t regtype;
BEGIN
  FOR f IN SELECT p.oid FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'embedq'::regnamespace
      AND p.proname !~ '_[0-9]+$' AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_depend d
        WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
  LOOP
    EXECUTE 'DROP FUNCTION ' || f;
  END LOOP;
  FOR t IN SELECT c.reltype FROM pg_catalog.pg_class c
    WHERE c.relnamespace = 'embedq'::regnamespace AND c.relkind = 'c'
  LOOP
    EXECUTE 'DROP TYPE ' || t;
  END LOOP;
END
$$
"""


@cache
def sources() -> tuple[str, ...]:
    """Read the files, in the order of their names."""
    folder = resources.files(__package__).joinpath("functions")
    named = sorted((item.name, item.read_text()) for item in folder.iterdir() if item.name.endswith(".sql"))
    return tuple(text for _, text in named)


@cache
def digest() -> str:
    """Identify these functions, and those generated per table."""
    return hashlib.sha256("\n".join((*sources(), templates_digest())).encode()).hexdigest()


@cache
def templates_digest() -> str:
    """Identify the templates of functions and triggers of attached tables."""
    folder = resources.files(__package__).joinpath("attaching")
    return hashlib.sha256("\n".join(folder.joinpath(name).read_text() for name in WRITERS).encode()).hexdigest()


async def are_ours(connection: Connection, address: Address) -> bool:
    """Say whether these functions are installed; those of a newer embedq are refused."""
    found = await connection.fetchrow(INSTALLED)
    if found is None:
        return False
    if found["digest"] != digest() and _numbers(found["version"]) > _numbers(__version__):
        raise StoreUnusable(
            f"{address.shown} has the functions of embedq {found['version']}, this is {__version__}: upgrade embedq, "
            "or open another database"
        )
    return bool(found["digest"] == digest())


async def replace(connection: Connection, schema: str) -> None:
    """Replace the installed functions by these, and grant their use; part of the caller's transaction.

    Args:
        connection: The owner's.
        schema: Where the vector extension lives.
    """
    await connection.execute(REMOVE)
    for source in sources():
        await connection.execute(with_vectors_of(schema, source))
    await connection.execute(ISSUE)
    await connection.execute(NOTE, __version__, digest())


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
