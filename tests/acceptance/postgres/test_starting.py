"""Bad days: the server goes away just when a process starts."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from tests.acceptance.processes import Place
from tests.acceptance.waiting import until

from embedq.stores.postgres.schema import LOCK
from embedq.testing.postgres import PostgresServer

WAITING = "SELECT string_agg(pid::text, ',') FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query {}"
REGISTERED = "SELECT count(*) FROM embedq.worker WHERE NOT gone"


@contextmanager
def held(server: PostgresServer, statement: str) -> Iterator[None]:
    """Hold a lock until the end, or until the server ends."""
    psql = [server.binaries / "psql", "--quiet", "--no-psqlrc", server.url()]
    with subprocess.Popen(psql, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdin is not None
        assert session.stdout is not None
        session.stdin.write(f"BEGIN; {statement};\n\\echo held\n")
        session.stdin.flush()
        until(lambda: "held" in (session.stdout.readline() if session.stdout else ""), "a lock")
        yield
        session.kill()


@pytest.mark.parametrize("command", ["work", "up"])
def test_a_server_that_is_being_restarted_is_waited_for(own_place: Place, server: PostgresServer, command: str) -> None:
    """Nobody listens when the process starts: it says so, tries again, and is up when the server is."""
    server.kill()
    process = own_place.try_to(command)
    trouble = process.heard("store_trouble", act="start")
    assert "cannot be reached" in trouble["error"]
    assert trouble["triesForSeconds"] > 20

    server.start()

    process.heard("started")
    assert process.heard("recovered", act="start")
    assert process.leave() == 0


def test_a_connection_that_is_cut_while_it_installs_is_opened_anew(own_place: Place, server: PostgresServer) -> None:
    """An administrator ends the session that installs the schema: another one installs it."""
    with held(server, f"SELECT pg_advisory_lock({LOCK})"):
        process = own_place.try_to("work")
        query = WAITING.format("LIKE '%advisory%'")
        waiting = until(lambda: server.query(query), "somebody who installs")
        server.query(f"SELECT pg_terminate_backend({waiting})")
        process.heard("store_trouble", act="start")

    process.heard("started")


def test_a_server_that_dies_when_workers_have_registered_is_waited_for(
    own_place: Place, server: PostgresServer
) -> None:
    """They register again when it is back, under the names that they had."""
    assert own_place.run("init").returncode == 0
    with ExitStack() as until_the_end:
        with held(server, "LOCK TABLE embedq.worker IN ACCESS EXCLUSIVE MODE"):
            process = own_place.try_to("work", EMBEDQ_WORKERS=3)
            until(lambda: server.query(WAITING.format("LIKE '%worker%'")), "a worker that registers")
            until_the_end.enter_context(held(server, "LOCK TABLE embedq.control IN ACCESS EXCLUSIVE MODE"))
        until(lambda: server.query(WAITING.format("LIKE '%resumes%'")), "workers that have registered")
        assert server.query(REGISTERED) == "3"
        server.kill()
        process.heard("store_trouble", act="start")

    server.start()

    process.heard("started")
    assert server.query(REGISTERED) == "3"


@pytest.mark.parametrize(
    ("url", "said"),
    [("postgres@{}/nowhere", "run `createdb nowhere`"), ("nobody@{}/postgres", 'role "nobody" does not exist')],
    ids=["no such database", "no such role"],
)
def test_a_refusal_ends_the_start_at_once(own_place: Place, server: PostgresServer, url: str, said: str) -> None:
    """What a person must mend is told in one message, and nothing is tried again."""
    address = url.format(f"127.0.0.1:{server.port}")

    ended = own_place.run("work", EMBEDQ_URL=f"postgresql://{address}")

    assert ended.returncode == 1
    assert said in " ".join(ended.stderr.split())
    assert "store_trouble" not in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_process_that_waits_for_its_server_leaves_when_it_is_asked(
    own_place: Place, server: PostgresServer, number: signal.Signals
) -> None:
    """Leaving is clean at any moment."""
    server.stop()
    process = own_place.try_to("up")
    process.heard("store_trouble", act="start")

    assert process.leave(number) == 0
