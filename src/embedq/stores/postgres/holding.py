"""What a database holds: records and their jobs, or one of the two. It is stored, so that it cannot be mistaken."""

from enum import StrEnum

import asyncpg

from embedq.errors import StoreUnusable
from embedq.stores.belonging import refuse_other_corpus
from embedq.stores.postgres.address import Address, parse
from embedq.stores.postgres.connection import Connection, connect
from embedq.stores.postgres.errors import Fault, translated
from embedq.stores.postgres.rights import become_owner, owner
from embedq.stores.postgres.schema import install, require

# A server's number, given when it was made, and the database's in it.
IDENTITY = """
SELECT (SELECT s.system_identifier FROM pg_catalog.pg_control_system() s), d.oid
FROM pg_catalog.pg_database d WHERE d.datname = pg_catalog.current_database()
"""
HELD = "SELECT holds FROM embedq.control"
OF_CORPUS = "SELECT corpus FROM embedq.control"
NOTE_CORPUS = "UPDATE embedq.control SET corpus = coalesce(corpus, $1) RETURNING corpus"  # another may have been faster
HAS_TABLES = "SELECT EXISTS (SELECT FROM embedq.attachment)"
HAS_RECORDS = "SELECT EXISTS (SELECT FROM embedq.record)"
NOTE = "UPDATE embedq.control SET holds = $1"

# A queue can be wiped and recreated: its numbers start at the clock, so that none is used twice.
BEGIN_NUMBERS = """
SELECT setval('embedq.record_rid', floor(date_part('epoch', clock_timestamp()) * 100000)::bigint)
WHERE NOT (SELECT is_called FROM embedq.record_rid)
"""


class Holds(StrEnum):
    """What a database holds."""

    BOTH = "both"
    RECORDS = "records"
    JOBS = "jobs"


async def identity(url: str, *, pooler: bool = False) -> tuple[int, ...] | None:
    """Return what tells a database from all others, however its URL is spelled; None where the server does not say."""
    address = parse(url, pooler=pooler)
    connection = await connect(address)
    try:
        return tuple(await connection.fetchrow(IDENTITY))
    except asyncpg.InsufficientPrivilegeError:
        return None
    except Fault as error:
        raise translated(error, address.shown) from error
    finally:
        await connection.close()


async def open_as(wanted: Holds, address: Address, *, make: bool) -> None:
    """Install or upgrade the schema, or only check it, and store what the database holds from now on."""
    await (install if make else require)(address)
    connection = await connect(address)
    try:
        await _note(connection, wanted, address, make=make)
    except Fault as error:
        raise translated(error, address.shown) from error
    finally:
        await connection.close()


async def belong_to(connection: Connection, corpus: str, shown: str, *, note: bool) -> None:
    """Refuse the queue of another corpus; one that has none yet is noted as this one's by whoever owns it."""
    noted = await connection.fetchval(OF_CORPUS)
    found = await owner(connection)
    if noted is None and note and found is not None and found[1]:
        async with connection.transaction():
            await become_owner(connection)
            noted = await connection.fetchval(NOTE_CORPUS, corpus)
    refuse_other_corpus(noted, corpus, shown)


async def _note(connection: Connection, wanted: Holds, address: Address, *, make: bool) -> None:
    if wanted is Holds.RECORDS and await connection.fetchval(HAS_TABLES):
        raise StoreUnusable(
            f"{address.shown} has attached tables, which are followed only if the queue is in the same database: leave "
            "EMBEDQ_QUEUE_URL out, or detach them first (`embedq attachments` lists them)"
        )
    held = Holds(await connection.fetchval(HELD))
    if held is wanted:
        return
    if held is Holds.JOBS:
        raise StoreUnusable(
            f"{address.shown} is the queue of a corpus elsewhere: name it in EMBEDQ_QUEUE_URL, and the corpus here"
        )
    if wanted is Holds.JOBS and await connection.fetchval(HAS_RECORDS):
        raise StoreUnusable(
            f"{address.shown} holds records, so it is no queue alone: name another database in EMBEDQ_QUEUE_URL"
        )
    found = await owner(connection)
    if not make or found is None or not found[1]:
        raise StoreUnusable(
            f"{address.shown} holds {held}, and is to hold {wanted} from now on: run `embedq init` with these "
            "settings, as the role that owns it"
        )
    async with connection.transaction():
        await become_owner(connection)
        await connection.execute(NOTE, str(wanted))
        if wanted is Holds.JOBS:
            await connection.execute(BEGIN_NUMBERS)
