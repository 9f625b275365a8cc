"""How connections to PostgreSQL are opened."""

import socket
from typing import Any

import asyncpg

from embedq.errors import StoreUnusable
from embedq.stores.postgres import vectors
from embedq.stores.postgres.address import Address
from embedq.stores.postgres.errors import Fault, is_lost, translated

CONNECT_SECONDS = 10.0  # for each host
SILENCE_MS = 20_000  # a connection without an answer for so long is dead: its host is unreachable
STATEMENT_SECONDS = 60.0  # the server ends a statement that takes longer: it waits for a lock, or hangs
ANSWER_SECONDS = 70.0  # by then the server would have answered: packets are lost on the way
SESSION = {
    "application_name": "embedq",
    "jit": "off",  # compiling costs more than our statements do
    "default_transaction_isolation": "read committed",  # a database's own default is meant for its applications
    "standard_conforming_strings": "on",
    # The server must notice a dead client, too: the client's locks are held until it does.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": str(SILENCE_MS),
    "idle_in_transaction_session_timeout": "60s",  # a client may also be stopped in the middle of a transaction
}
# Names in our statements are the system's: functions that others put into `public` must not be called instead. Set
# by a statement, so that DEFAULT stays what the user expects.
OWN_PATH = "SET search_path = pg_catalog, pg_temp"
OWN_PATH_HERE = "SET LOCAL search_path = pg_catalog, pg_temp"  # behind a pooler, for one transaction

# The vector extension's schema: it may be installed in any.
EXTENSION = """
SELECT n.nspname FROM pg_catalog.pg_extension e JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'vector'
"""

Connection = Any  # asyncpg has no types


async def connect(address: Address, *, bounded: bool = False) -> Connection:
    """Open a connection, whether the schema is installed or not, to the first suitable host.

    Args:
        address: Where it is.
        bounded: No statement may take longer than a minute; otherwise it may wait as long as an upgrade takes.
    """
    *others, last = list(address.hosts)
    for host in others:
        try:
            return await _connect_to(host, address, bounded=bounded)
        except Fault as error:
            if not is_lost(error):  # the host is up, and refuses us
                raise translated(error, address.shown, connecting=True) from error
    try:
        return await _connect_to(last, address, bounded=bounded)
    except Fault as error:
        raise translated(error, address.shown, connecting=True) from error


async def _connect_to(host: str, address: Address, *, bounded: bool) -> Connection:
    """Open a connection to one host: the driver alone would spend all its time on the first unreachable one."""
    session = SESSION | ({"statement_timeout": f"{STATEMENT_SECONDS:g}s"} if bounded else {})
    try:
        connection = await asyncpg.connect(
            host,
            timeout=CONNECT_SECONDS,
            command_timeout=ANSWER_SECONDS if bounded else None,
            statement_cache_size=0 if address.pooler else 100,
            server_settings=None if address.pooler else session,
        )
    except ValueError as error:  # the driver's message about an invalid URL; as cause it would show the URL
        raise StoreUnusable(f"EMBEDQ_URL cannot be used: {address.hide(str(error))}") from None
    _notice_silence(connection)
    if address.pooler:
        _keep_settings(connection)
    else:
        await connection.execute(OWN_PATH)
    address.prefer(host)
    return connection


async def connect_to_installed(address: Address) -> Connection:
    """Open a connection that can transfer vectors."""
    connection = await connect(address, bounded=True)
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


def _keep_settings(connection: Connection) -> None:
    """Keep the driver from switching `jit` when it looks up types: behind a pooler that session is shared."""
    connection._server_caps = connection._server_caps._replace(jit=False)  # noqa: SLF001 the driver offers no other way


def _notice_silence(connection: Connection) -> None:
    """Let the kernel close a connection whose peer has become unreachable."""
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
