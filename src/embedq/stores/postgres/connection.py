"""How connections to PostgreSQL are opened."""

import socket
from typing import Any

import asyncpg

from embedq.errors import StoreUnusable
from embedq.stores.postgres import vectors
from embedq.stores.postgres.address import Address
from embedq.stores.postgres.faults import Fault, translated

CONNECT_SECONDS = 10.0
SILENCE_MS = 20_000  # unanswered for so long, a connection is dead: its host is gone without a word
SESSION = {"application_name": "embedq", "jit": "off"}  # compiling costs more than our statements do

# Where the vector extension lives: people put it into schemas of their own.
EXTENSION = """
SELECT n.nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'vector'
"""

Connection = Any  # asyncpg carries no types


async def connect(address: Address) -> Connection:
    """Open a connection as the database is, installed or not."""
    try:
        connection = await asyncpg.connect(
            address.dsn,
            timeout=CONNECT_SECONDS,
            statement_cache_size=0 if address.pooler else 100,
            server_settings=None if address.pooler else SESSION,
        )
    except Fault as error:
        raise translated(error, address.shown) from error
    except ValueError as error:  # the driver's own words about a URL it cannot read; they name no password
        raise StoreUnusable(f"EMBEDQ_URL cannot be used: {error}") from error
    _notice_silence(connection)
    return connection


async def connect_to_installed(address: Address) -> Connection:
    """Open a connection that can carry vectors."""
    connection = await connect(address)
    try:
        schema = await connection.fetchval(EXTENSION)
        if schema is None:
            raise StoreUnusable(f"{address.shown} has no vector extension any more: run `embedq init`")  # noqa: TRY301 closed below
        await connection.set_type_codec(
            "vector", schema=schema, encoder=vectors.as_sent, decoder=vectors.decode, format="binary"
        )
    except Fault as error:
        connection.terminate()
        raise translated(error, address.shown) from error
    except BaseException:
        connection.terminate()
        raise
    return connection


def _notice_silence(connection: Connection) -> None:
    """Let the kernel end a connection whose other side has gone without a word."""
    found = connection._transport.get_extra_info("socket")  # noqa: SLF001 the driver offers no other way
    if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 5),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", SILENCE_MS),
    ):
        if hasattr(socket, name):  # the last is Linux only
            found.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
