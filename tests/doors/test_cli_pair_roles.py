"""A pair of PostgreSQL databases by the command line, for logins that have the ready roles in both."""

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest
from tests.doors.conftest import Shell

from embedq.testing.postgres.address import PostgresAddress

KINDS = ("reader", "writer")
READS = (("status",), ("jobs",), ("dead", "list"), ("search", "notes", "loom"), ("collections",))


def execute(url: str, *statements: str) -> None:
    async def run() -> None:
        db = await asyncpg.connect(url)
        for statement in statements:
            await db.execute(statement)
        await db.close()

    asyncio.run(run())


@pytest.fixture
def queue_url(postgres_url: str, postgres_server: PostgresAddress, postgres_template: str) -> Iterator[str]:
    """A second database."""
    name = f"{postgres_url.rpartition('/')[2]}_queue"
    yield postgres_server.create_database(name, template=postgres_template)
    postgres_server.drop_database(name)


@pytest.fixture
def pair(shell: Shell, postgres_url: str, queue_url: str) -> Iterator[dict[str, dict[str, str]]]:
    """Make roles in both databases, and a record in one collection; the URLs by who connects."""
    names = {kind: f"pair_{kind}_{postgres_url[-8:]}" for kind in KINDS}
    shell.environment |= {"EMBEDQ_URL": postgres_url, "EMBEDQ_QUEUE_URL": queue_url, "EMBEDQ_EMBEDDER": "fake@8"}
    shell.run("init", "--roles")
    shell.run("put", "notes", shell.write("notes.jsonl", {"id": "a", "text": "Call Ada about the loom"}))
    for kind, name in names.items():
        execute(postgres_url, f"CREATE ROLE {name} LOGIN", f"GRANT embedq_{kind} TO {name}")
    urls = {"EMBEDQ_URL": postgres_url, "EMBEDQ_QUEUE_URL": queue_url}
    yield {
        kind: {which: url.replace("postgres@", f"{name}@") for which, url in urls.items()}
        for kind, name in names.items()
    }
    execute(postgres_url, *(f"DROP ROLE {name}" for name in names.values()))


def test_a_reader_reads_a_pair(shell: Shell, pair: dict[str, dict[str, str]]) -> None:
    """All that a reader may do with one database; it writes to neither."""
    for words in READS:
        shell.run(*words, **pair["reader"])
    assert shell.facts("status", **pair["reader"])["queue"]["pending"]["total"] == 1
    assert [hit["id"] for hit in shell.facts("search", "notes", "loom", **pair["reader"])["hits"]] == ["a"]
    refused = shell.run("put", "notes", "notes.jsonl", code=1, **pair["reader"]).stderr
    assert "embedq_writer" in refused


def test_a_reader_goes_on_where_the_queue_lacks_or_differs(
    shell: Shell, pair: dict[str, dict[str, str]], queue_url: str
) -> None:
    """What the queue was not told yet is not the reader's to tell; a writer that opens the pair tells it."""
    execute(
        queue_url,
        "UPDATE embedq.collection SET priority = 3, revision = revision + 1",
        "UPDATE embedq.space SET dimensions = NULL",
    )
    for words in READS:
        shell.run(*words, **pair["reader"])
    execute(queue_url, "UPDATE embedq.collection SET name = 'another'")
    for words in READS:
        shell.run(*words, **pair["reader"])

    shell.run("status", **pair["writer"])
    execute(queue_url, "DO $$ BEGIN ASSERT (SELECT priority = 1 FROM embedq.collection WHERE name = 'notes'); END $$")


def test_a_writer_writes_to_a_pair(shell: Shell, pair: dict[str, dict[str, str]], queue_url: str) -> None:
    """It tells the queue what that lacks; to look, it writes nothing."""
    execute(queue_url, "CREATE TABLE was AS SELECT xmin::text AS version FROM embedq.space")
    shell.run("status", **pair["writer"])
    execute(queue_url, "DO $$ BEGIN ASSERT (SELECT s.xmin::text = w.version FROM embedq.space s, was w); END $$")

    shell.run("put", "pages", "notes.jsonl", **pair["writer"])
    assert shell.facts("status", **pair["reader"])["queue"]["pending"]["total"] == 2


def test_whoever_owns_the_queue_notes_its_corpus(shell: Shell, pair: dict[str, dict[str, str]], queue_url: str) -> None:
    """A role that may not note it goes on with a queue of before, and is bound by what the owner notes."""
    execute(queue_url, "UPDATE embedq.control SET corpus = NULL")
    shell.run("put", "notes", "notes.jsonl", **pair["writer"])
    execute(queue_url, "DO $$ BEGIN ASSERT (SELECT corpus IS NULL FROM embedq.control); END $$")
    shell.run("init")
    shell.run("put", "notes", "notes.jsonl", **pair["writer"])

    other = pair["writer"] | {"EMBEDQ_URL": "sqlite:///other.db"}

    assert "another corpus" in shell.run("put", "notes", "notes.jsonl", code=1, **other).stderr
