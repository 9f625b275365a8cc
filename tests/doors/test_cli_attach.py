"""Tables through the doors: the commands in real processes, and what HTTP says of attached collections."""

# ruff: noqa: S608 (names of tables are put into statements here on purpose)

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from httpx import ASGITransport, AsyncClient
from tests.doors.conftest import Shell, problem

from embedq.api import create_app
from embedq.app import load, start
from embedq.cli.attach import columns

EMBEDDER = "fake@16"
CREATE = "CREATE TABLE docs (id int PRIMARY KEY, title text, body text, kind text, e vector(16))"
ROWS = "INSERT INTO docs SELECT n, 'title ' || n, 'about looms ' || n, 'k' FROM generate_series(1, 1500) n"
DOCS = ("attach", "docs", "--key", "id", "--text", "body")
ATTACH = ("attach", "docs", "--key", "id", "--text", "title,body", "--into", "e")


@pytest.fixture
def tables(shell: Shell, postgres_url: str) -> Callable[[str], object]:
    """Run SQL in the shell's database."""
    shell.environment |= {"EMBEDQ_URL": postgres_url, "EMBEDQ_EMBEDDER": EMBEDDER}

    def run(sql: str) -> object:
        async def work() -> object:
            db = await asyncpg.connect(postgres_url)
            try:
                await db.execute("CREATE EXTENSION IF NOT EXISTS vector")
                return await db.fetchval(sql) if sql.startswith("SELECT") else await db.execute(sql)
            finally:
                await db.close()

        return asyncio.run(work())

    return run


def test_row_security_is_told_not_to_cover_the_copy(shell: Shell, tables: Callable[[str], object]) -> None:
    """Who attaches a table with row security is told that embedq's copy is open to whoever may search it."""
    tables(f"{CREATE}; {ROWS}; ALTER TABLE docs ENABLE ROW LEVEL SECURITY")

    said = " ".join(shell.run(*DOCS).stdout.split())
    listed = " ".join(shell.run("attachments").stdout.split())

    for words in (said, listed):
        assert "public.docs has row security, which does not cover embedq's copy of its rows" in words
    [one] = shell.facts("attachments")["tables"]
    assert one["row_security"] is True


def test_a_table_is_attached_looked_at_and_detached(shell: Shell, tables: Callable[[str], object]) -> None:
    """One command makes it a collection with all its rows; two others say how it is and leave it as it was."""
    tables(f"{CREATE}; {ROWS}")

    said = shell.run(*ATTACH, "--attributes", "kind").stdout

    done = "● public.docs is the collection docs: 1,500 rows looked at, 1,500 to embed by workers (`embedq work`)"
    assert " ".join(said.split()) == done
    assert shell.facts("status")["queue"]["pending"]["total"] == 1500
    [one] = shell.facts("attachments")["tables"]
    assert one == {
        "collection": "docs", "table": "public.docs", "key": ["id"], "text": ["title", "body"], "into": "e",
        "priority": None, "tenant": None, "attributes": ["kind"], "rows": 1500, "seen": 1500, "walking": False,
        "noted": 0, "refused": {"count": 0, "some": {}}, "given_up": 0, "adopted": 0, "problem": None,
        "row_security": False, "trusts": None,
    }  # fmt: skip
    assert "0% embedded, 1,500 to do" in " ".join(shell.run("attachments").stdout.split())
    [hit] = shell.facts("search", "docs", "looms 77", "-m", "hybrid", "-k", "1", "-f", "kind=k")["hits"]
    assert hit["text"] == "title 77\nabout looms 77"
    assert "docs is detached" in shell.run("detach", "docs").stdout
    assert tables("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'docs'::regclass") == 0
    assert "no table is attached" in shell.run("attachments").stdout
    assert shell.facts("attachments") == {"tables": []}


def test_running_it_again_is_harmless(shell: Shell, tables: Callable[[str], object]) -> None:
    """The same command looks at every row again, and queues nothing twice."""
    tables(f"{CREATE}; {ROWS}")

    first, second = shell.facts(*ATTACH), shell.facts(*ATTACH)

    assert (first["seen"], second["seen"], second["walking"]) == (1500, 1500, False)
    assert shell.facts("status")["queue"]["pending"]["total"] == 1500


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("attach", "nope", "--key", "id", "--text", "body"), "there is no table 'nope'"),
        (("attach", "docs", "--key", "id", "--text", "words"), "has no column 'words'; it has id, title, body"),
        (("attach", "docs", "--key", "title", "--text", "body"), "no unique index over (title)"),
        (("attach", "docs", "--key", "", "--text", "body"), "the key needs one or more columns"),
        (("attach", "docs", "--key", "id", "--text", ""), "the text needs one or more columns"),
        ((*DOCS, "--into", "f"), "make it first"),
        ((*DOCS, "--tenant", "title,body"), "--tenant takes one column"),
        ((*DOCS, "--into", "e", "--embedder", "fake@8"), "this embedder gives 8"),
        ((*DOCS, "--adopt"), "name the column that they are in: --into"),
        ((*DOCS, "--priority", "1; DROP TABLE docs"), "is no expression over a row"),
        ((*DOCS, "--collection", ""), "a collection's name"),
        (("attach", "docs", "--key", ",".join(f"c{n}" for n in range(40)), "--text", "body"), "at most 32"),
        (("detach", "docs"), "no table is attached as 'docs'"),
        ((*DOCS, "--url", "sqlite:///x.db"), "can be attached in PostgreSQL"),
    ],
)  # fmt: skip
def test_a_refusal_is_one_message(
    shell: Shell, tables: Callable[[str], object], words: tuple[str, ...], said: str
) -> None:
    """It says what is wrong, ends with 1 and leaves nothing behind."""
    tables(CREATE)
    shell.run("init")

    assert said in " ".join(shell.run(*words, code=1).stderr.split())

    assert shell.facts("collections")["collections"] == []
    assert tables("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'embedq%'") == 0


def test_rows_that_cannot_be_embedded_are_told(shell: Shell, tables: Callable[[str], object]) -> None:
    """The command warns of them, and so does the list."""
    tables("CREATE TABLE odd (id text PRIMARY KEY, body text)")
    tables("INSERT INTO odd VALUES (E'a\\nb', 'x'), ('long', repeat('x', 2000000)), ('c', 'fine')")

    told = shell.run("attach", "odd", "--key", "id", "--text", "body").stdout

    assert "2 rows cannot be embedded" in " ".join(told.split())
    assert "control characters" in told
    assert "2 rows cannot be embedded" in " ".join(shell.run("attachments").stdout.split())


def test_a_table_in_trouble_is_told(shell: Shell, tables: Callable[[str], object]) -> None:
    """A column that is gone is named, and the command that attaches does not wait for ever."""
    tables(f"{CREATE}; {ROWS}")
    shell.run(*ATTACH)
    tables("ALTER TABLE docs RENAME e TO vec; ALTER TABLE docs RENAME title TO heading")

    assert "has no column" in shell.run(*ATTACH, code=1).stderr
    tables("INSERT INTO docs VALUES (9999, 'x', 'y', 'z')")
    assert shell.facts("attachments")["tables"][0]["collection"] == "docs"
    said = shell.run("search", "docs", "looms", "-m", "keyword", "-k", "1")
    assert "its table is not followed, so that hits may be stale: public.docs has no column" in " ".join(
        (said.stdout + said.stderr).split()
    )


def test_other_options_alter_and_adopt(shell: Shell, tables: Callable[[str], object]) -> None:
    """One command more takes the vectors that are there, and nothing is refused that can be altered."""
    tables(f"{CREATE}; {ROWS}; UPDATE docs SET e = array_fill(id::real, ARRAY[16])::vector")
    shell.run(*DOCS)

    said = shell.run(*ATTACH, "--attributes", "kind", "--adopt").stdout

    assert "1,500 rows looked at, the vectors of 1,500 rows adopted" in " ".join(said.split())
    [one] = shell.facts("attachments")["tables"]
    assert (one["text"], one["into"], one["attributes"], one["adopted"]) == (["title", "body"], "e", ["kind"], 1500)


def test_vectors_that_were_adopted_before_are_not_told_again(shell: Shell, tables: Callable[[str], object]) -> None:
    """Only a command that asked for it says that it adopted vectors; how many ever were is in the list."""
    tables(f"{CREATE}; {ROWS}; UPDATE docs SET e = array_fill(id::real, ARRAY[16])::vector")

    first, second = (" ".join(shell.run(*words).stdout.split()) for words in ((*ATTACH, "--adopt"), ATTACH))

    assert first.endswith("1,500 rows looked at, the vectors of 1,500 rows adopted")  # and nothing is to be embedded
    assert "adopted" not in second
    assert shell.facts("attachments")["tables"][0]["adopted"] == 1500


@pytest.mark.parametrize(
    ("written", "names"),
    [("a,b", ["a", "b"]), ("a, b", ["a", "b"]), ('"a,b",c', ["a,b", "c"]), ('"a""b"', ['a"b']), ("", []),
     ("a,,b", ["a", "b"]), (" spaced name ,x", ["spaced name ", "x"]), ("ü", ["ü"]), ("it's", ["it's"])],
)  # fmt: skip
def test_columns_are_read_as_people_write_them(written: str, names: list[str]) -> None:
    """Commas separate; a name with a comma or a quote stands in double quotes."""
    assert columns(written) == names


@pytest_asyncio.fixture
async def http(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncClient]:
    """Serve a database with an attached table."""
    monkeypatch.chdir(tmp_path)  # where no settings file lies
    settings = load(url=postgres_url, embedder=EMBEDDER, allowed_embedders="fake@8")
    async with start(settings, serving=True, quiet=True) as app:
        db = await asyncpg.connect(postgres_url)
        await db.execute(f"{CREATE}; INSERT INTO docs VALUES (1, 'one', 'text')")
        await db.close()
        await app.client.tables.attach("docs", key=["id"], text=["body"], into="e")
        while await app.client.tables.gather():
            pass
        assert app.metrics is not None
        api = create_app(app.client, app.operator, settings=settings, telemetry=app.telemetry, metrics=app.metrics)
        transport = ASGITransport(api, raise_app_exceptions=False)
        async with AsyncClient(transport=transport, base_url="http://localhost:8400") as client:
            yield client


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/collections/docs/records", {"id": "2", "text": "no"}),
        ("PATCH", "/collections/docs/records/1", {"text": "no"}),
        ("DELETE", "/collections/docs/records/1", None),
        ("DELETE", "/collections/docs?confirm=docs", None),
        ("PUT", "/collections/docs", {"text_from": ["body"]}),
        ("PUT", "/collections/docs", {"embedder": "fake@8"}),
    ],
)
async def test_http_says_whose_the_records_are(
    http: AsyncClient, method: str, path: str, body: dict[str, object] | None
) -> None:
    """Whoever would write records of a table past it gets 409 with the table's name, and nothing is changed."""
    refused = problem(await http.request(method, path, json=body), 409, "conflict")

    assert "public.docs" in refused["detail"]
    assert (await http.get("/collections/docs/records/1")).json()["text"] == "text"


async def test_http_says_that_a_table_is_not_followed(http: AsyncClient, postgres_url: str) -> None:
    """A search answers from what was there, and says so."""
    found = (await http.post("/collections/docs/search", json={"query": "text", "mode": "keyword"})).json()
    assert (found["freshness"]["trouble"], [hit["stale"] for hit in found["hits"]]) == (None, [False])
    db = await asyncpg.connect(postgres_url)
    await db.execute("DROP TABLE docs")
    await db.close()

    found = (await http.post("/collections/docs/search", json={"query": "text", "mode": "keyword"})).json()

    assert [hit["stale"] for hit in found["hits"]] == [True]
    assert (found["freshness"]["coverage"], "is gone" in found["freshness"]["trouble"]) == (0.0, True)
