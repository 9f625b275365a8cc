"""Behind PgBouncer, which hands out sessions for one transaction at a time, or for as long as a client stays."""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import psycopg
import pytest
from tests.acceptance.load import Writer
from tests.acceptance.postgres.truth import check_truth
from tests.acceptance.processes import Api, Place, Process

import embedq
from embedq.testing.postgres import Pgbouncer, PostgresAddress, PostgresUnavailable
from embedq.testing.postgres.fixtures import unavailable

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "behind-pgbouncer.md"
SESSIONS = 3
MANY = 60  # in session mode each connection keeps one
Behind = Callable[..., str]
TROUBLE = {"store_trouble", "heartbeat_failed", "rescue_failed", "upkeep_failed", "runner_restarted", "request_failed"}
# What a session must not keep for whoever comes next; the pooler itself carries two settings over.
STATE = """
SELECT pg_backend_pid() AS pid, (SELECT count(*) FROM pg_listening_channels()) AS channels,
  (SELECT count(*) FROM pg_prepared_statements WHERE name <> '') AS statements,
  (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()) AS locks,
  (SELECT count(*) FROM pg_settings WHERE source = 'session'
    AND name NOT IN ('application_name', 'client_encoding')) AS settings,
  (SELECT count(*) FROM pg_class WHERE relnamespace = pg_my_temp_schema()) AS tables
"""


@pytest.fixture
def behind(postgres18: PostgresAddress, postgres_url: str) -> Iterator[Behind]:
    """Start a pooler like this; answer with the test's database by way of it."""
    with ExitStack() as stack:

        def start(**options: Any) -> str:  # noqa: ANN401 the pooler's own options
            try:
                pooler = Pgbouncer(postgres18, **options)
            except PostgresUnavailable as error:
                unavailable(str(error))
            return stack.enter_context(pooler).url(urlsplit(postgres_url).path[1:])

        yield start


@pytest.fixture
def pooled_url(behind: Behind) -> str:
    """The test's database by way of a transaction pooler."""
    return behind(sessions=SESSIONS)


@pytest.fixture(params=["by its setting", "by its URL"])
def pooled(request: pytest.FixtureRequest, tmp_path: Path, pooled_url: str) -> Iterator[Place]:
    """Processes that are told of the pooler in either way."""
    by_url = request.param == "by its URL"
    made = Place(tmp_path, f"{pooled_url}?pooler=transaction" if by_url else pooled_url)
    made.environment |= {} if by_url else {"EMBEDQ_PG_POOLER": "1"}
    yield made
    made.close()


async def states_of(url: str) -> dict[int, dict[str, int]]:
    """Read what each session of the pooler has kept."""
    connections = [await asyncpg.connect(url, statement_cache_size=0) for _ in range(SESSIONS)]
    for connection in connections:  # held at once, so that each gets another session
        await connection.execute("BEGIN")
    rows = [dict(await connection.fetchrow(STATE)) for connection in connections]
    for connection in connections:
        await connection.execute("ROLLBACK")
        await connection.close()
    return {row.pop("pid"): row for row in rows}


def search(api: Api, text: str) -> list[str]:
    """Find the record that is nearest to a text."""
    answer = api.http.post("/collections/notes/search", json={"query": text, "mode": "semantic", "k": 1})
    assert answer.is_success, answer.text
    return [hit["id"] for hit in answer.json()["hits"]]


def trouble_of(processes: list[Process]) -> list[object]:
    return [line for process in processes for line in process.log() if line["event"] in TROUBLE]


async def test_everything_works_with_fewer_sessions_than_clients(
    pooled: Place, pooled_url: str, postgres_url: str
) -> None:
    """Puts, edits, work, search and status share three sessions: all is right, and no session keeps anything."""
    api = pooled.up(EMBEDQ_BATCH_SIZE=10)
    pooled.work(EMBEDQ_BATCH_SIZE=10)
    api.put({"id": "first", "text": "the first"})  # makes the collection
    writers = [Writer(api, ids=60, name=name) for name in "abcd"]
    with ThreadPoolExecutor(4) as readers:
        list(readers.map(lambda number: (api.status(), api.jobs(), search(api, f"query {number}")), range(40)))
    for writer in writers:
        writer.writes_on()
        writer.finish()

    await check_truth(pooled, api, *writers, url=postgres_url)
    name, text = next(iter(writers[0].acknowledged.items()))
    assert search(api, text) == [name]
    assert api.http.delete(f"/collections/notes/records/{name}").is_success
    api.act("pause")
    assert api.status()["paused"]
    api.act("resume")
    assert trouble_of(pooled.processes) == []
    states = await states_of(pooled_url)
    assert len(states) == SESSIONS
    assert [state for state in states.values() if any(state.values())] == []


def test_an_idle_worker_hears_of_work_by_looking(pooled: Place) -> None:
    """Nobody can ring through the pooler: a worker looks twice a second, not just every five."""
    api = pooled.serve()
    pooled.work()
    api.put({"id": "n0", "text": "the first"})
    api.embedded(1)

    for number in range(1, 4):
        since = time.monotonic()
        api.put({"id": f"n{number}", "text": f"text {number}"})
        api.embedded(number + 1)
        assert time.monotonic() - since < 3


async def test_a_put_in_the_callers_transaction_goes_with_it(pooled: Place, pooled_url: str) -> None:
    """Rolled back it is gone, committed it is embedded: with asyncpg and psycopg connections through the pooler."""
    api = pooled.up()
    own = await asyncpg.connect(pooled_url, statement_cache_size=0)
    other = await psycopg.AsyncConnection.connect(pooled_url, prepare_threshold=None)
    async with embedq.open(pooled_url, embedder="fake@16", pg_pooler=True) as eq:
        await eq.put("notes", [{"id": "seed", "text": "the collection is there"}])
        async with own.transaction():
            await eq.put("notes", [{"id": "own", "text": "kept by asyncpg"}], connection=own)
        await eq.put("notes", [{"id": "other", "text": "kept by psycopg"}], connection=other)
        await other.commit()

        dropped = own.transaction()
        await dropped.start()
        await eq.put("notes", [{"id": "gone", "text": "dropped"}], connection=own)
        await dropped.rollback()
        await eq.put("notes", [{"id": "gone too", "text": "dropped too"}], connection=other)
        await other.rollback()
        await asyncio.gather(own.close(), other.close())

    api.embedded(3)
    listed = api.http.get("/collections/notes/records").json()["records"]
    assert {record["id"] for record in listed} == {"seed", "own", "other"}


@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_a_pooler_that_nobody_told_of_is_recognised(tmp_path: Path, behind: Behind, mode: str) -> None:
    """Without the setting the start is refused in either mode, and the setting is named."""
    place = Place(tmp_path, behind(mode=mode))

    refused = place.run("work")

    assert refused.returncode == 1
    assert "EMBEDQ_PG_POOLER=1" in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("told", [True, False], ids=["embedq was told", "it ignores our settings"])
def test_a_session_pooler_does_either_way(tmp_path: Path, behind: Behind, *, told: bool) -> None:
    """In session mode embedq is told of the pooler, or the pooler to ignore what the how-to lists: then all works."""
    [listed] = re.findall(r"^ignore_startup_parameters = (.+)$", PAGE.read_text(), re.MULTILINE)
    ignored = [] if told else listed.split(", ")
    place = Place(tmp_path, behind(mode="session", sessions=MANY, ignored=ignored))
    place.environment |= {"EMBEDQ_PG_POOLER": "1"} if told else {}
    try:
        api = place.up()
        api.put(*({"id": f"n{number}", "text": f"text {number}"} for number in range(300)))
        api.embedded(300)

        assert search(api, "text 77") == ["n77"]
        assert trouble_of(place.processes) == []
    finally:
        place.close()


async def test_a_table_is_attached_behind_a_pooler(pooled_url: str, postgres_url: str) -> None:
    """Its rows and its changes get their vectors, a session keeps nothing of it, and detaching leaves no trigger."""
    db = await asyncpg.connect(postgres_url)
    await db.execute("CREATE EXTENSION IF NOT EXISTS vector; CREATE TABLE page (id int PRIMARY KEY, body text)")
    await db.execute("INSERT INTO page SELECT n, 'text ' || n FROM generate_series(1, 300) n")
    async with embedq.open(f"{pooled_url}?pooler=transaction", workers=1, embedder="fake") as eq:
        await eq.tables.attach("page", key=["id"], text=["body"])
        await db.execute("INSERT INTO page VALUES (301, 'new'); UPDATE page SET body = 'edited' WHERE id = 1")
        while any(table.walking or table.noted for table in await eq.tables.listing()):
            await eq.tables.gather()  # or the worker does
        found = await eq.wait("page", ["1", "300", "301"], timeout=30)
        edited = await eq.get("page", "1")
        await eq.tables.detach("page")

    assert (set(found.values()), edited.text) == ({"embedded"}, "edited")
    assert await db.fetchval("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'page'::regclass") == 0
    assert all(sum(kept.values()) == 0 for kept in (await states_of(pooled_url)).values())
    await db.close()
