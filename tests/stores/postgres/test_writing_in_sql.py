"""Records are put and deleted in plain SQL, with the checks and the texts of every other way."""

import json
from typing import Any

import asyncpg
import pytest
from tests.stores.postgres.roles import Roles
from tests.stores.postgres.tables import attach

from embedq.client.intake import check_texts, read_records
from embedq.errors import Invalid
from embedq.model import EmbedderName, RecordId
from embedq.policy.texts import Limits, compose
from embedq.stores.postgres import PostgresJobStore, PostgresStore
from embedq.testing.stores.stage import NOON, NOTES, declaration, embed_all, take

PUT = "SELECT id, embedding_status, job_id FROM embedq.put($1, $2)"
DELETE = "SELECT * FROM embedq.delete($1, $2)"
LISTED = ("title", "tags")


def deep(levels: int) -> dict[str, Any]:
    """Nest attributes so deep."""
    found: dict[str, Any] = {"end": 1}
    for _ in range(levels - 2):
        found = {"in": found}
    return found


BAD: dict[str, Any] = {
    "no object": "a",
    "an unknown field": {"id": "a", "text": "A", "body": "A"},
    "no id": {"text": "A"},
    "an id that is a number": {"id": 1, "text": "A"},
    "an id that is null": {"id": None, "text": "A"},
    "an empty id": {"id": "", "text": "A"},
    "a long id": {"id": "ü" * 257, "text": "A"},
    "an id with control characters": {"id": "a\n", "text": "A"},
    "a tenant with control characters": {"id": "a", "text": "A", "tenant": "\u0085"},
    "a tenant that is a number": {"id": "a", "text": "A", "tenant": 1},
    "no text": {"id": "a"},
    "an empty text": {"id": "a", "text": " \n"},
    "a text that is a list": {"id": "a", "text": ["A"]},
    "a long text": {"id": "a", "text": "A" * ((1 << 20) + 1)},
    "attributes that are a list": {"id": "a", "text": "A", "attributes": ["A"]},
    "long attributes": {"id": "a", "text": "A", "attributes": {"a": "A" * (1 << 20)}},
    "deep attributes": {"id": "a", "text": "A", "attributes": deep(65)},
    "an unknown priority": {"id": "a", "text": "A", "priority": "soon"},
    "a priority out of range": {"id": "a", "text": "A", "priority": 4},
}
GOOD: list[dict[str, Any]] = [
    {"id": "ü" * 256, "text": "A"},
    {"id": "null", "text": "A", "attributes": None, "tenant": None, "priority": None},
    {"id": "deep", "text": "A" * (1 << 20), "attributes": deep(64)},
    {"id": "lanes", "text": " A", "priority": "URGENT"},
    {"id": "numbers", "text": "A", "priority": 0, "attributes": {}},
]
COMPOSED: list[dict[str, Any]] = [
    {"title": "A loom", "tags": ["wood", "table", ["in", "a list"], {"an": "object"}, None, True, 5, []]},
    {"title": "", "tags": "one"},
    {"title": None, "tags": []},
    {"title": 1.5, "tags": [2.0, 100, -0.25, 0, 12.125]},
    {"title": False, "tags": {"b": 1, "a": [1, 2], "ü": '\u2028\t"'}},
    {"other": "A"},
]


async def put(db: asyncpg.Connection, *records: object, collection: str = NOTES) -> list[tuple[str, str, str]]:
    """Put records."""
    return [tuple(row) for row in await db.fetch(PUT, collection, json.dumps(records))]


async def count(db: asyncpg.Connection) -> int:
    return int(await db.fetchval("SELECT count(*) FROM embedq.record"))


async def test_what_is_put_in_sql_is_embedded(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The answer names the jobs, in the order of the request, and workers find them."""
    answered = await put(db, {"id": "b", "text": "B"}, {"id": "a", "text": "A", "attributes": {"n": 1}, "tenant": "t"})

    leases = await take(store, at=None)
    assert answered == [(lease.record_id, "pending", lease.job_id) for lease in leases]
    await embed_all(store)
    [record] = await store.get(NOTES, [RecordId("a")])
    assert (record.text, record.attributes, record.tenant) == ("A", {"n": 1}, "t")


async def test_the_same_again_queues_nothing(store: PostgresStore, db: asyncpg.Connection) -> None:
    """It answers with the same job and how the record stands; another text is embedded anew."""
    first = await put(db, {"id": "a", "text": "A"})
    assert await put(db, {"id": "a", "text": "A"}) == first
    await embed_all(store)

    assert [row[1] for row in await put(db, {"id": "a", "text": "A"}, {"id": "b", "text": "B"})] == [
        "embedded",
        "pending",
    ]
    assert [row[1] for row in await put(db, {"id": "a", "text": "other"})] == ["pending"]


async def test_one_record_needs_no_list(store: PostgresStore, db: asyncpg.Connection) -> None:
    """As over HTTP."""
    del store
    assert len(await db.fetch(PUT, NOTES, '{"id": "a", "text": "A"}')) == 1


async def test_a_rolled_back_transaction_leaves_nothing(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Record and job are part of the caller's transaction."""
    transaction = db.transaction()
    await transaction.start()
    await put(db, {"id": "a", "text": "A"})
    await transaction.rollback()

    assert (await count(db), await take(store)) == (0, [])


async def test_records_are_deleted_in_sql(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The answer names those that were there; their jobs are cancelled."""
    await put(db, {"id": "a", "text": "A"}, {"id": "b", "text": "B", "tenant": "t"})

    assert [row[0] for row in await db.fetch(DELETE, NOTES, ["a", "nobody"])] == ["a"]
    assert [row[0] for row in await db.fetch("SELECT embedq.delete($1, $2, true, 'x')", NOTES, ["b"])] == []
    assert [row[0] for row in await db.fetch("SELECT embedq.delete($1, $2, true, 't')", NOTES, ["b"])] == ["b"]

    assert await take(store) == []
    assert await db.fetchval("SELECT string_agg(text, '') FROM embedq.record") == "A"


@pytest.mark.parametrize("postgres_version", [18])
@pytest.mark.parametrize("what", BAD)
async def test_a_bad_record_is_refused_and_nothing_is_written(
    store: PostgresStore, db: asyncpg.Connection, what: str
) -> None:
    """What Python refuses is refused in SQL, with the record's position, and the good one beside it is not stored."""
    del store
    records = [{"id": "good", "text": "good"}, BAD[what]]
    with pytest.raises(Invalid):
        check_texts(read_records(records, Limits()), None)

    with pytest.raises(asyncpg.InvalidParameterValueError, match=r"1 of 2 records refused, so none is stored: \[1\] "):
        await put(db, *records)

    assert await count(db) == 0


@pytest.mark.parametrize("number", ["1" + "0" * 5000, "-1e400", "1" + "0" * 400 + ".5"])
async def test_a_number_that_no_reader_could_read_is_refused(
    store: PostgresStore, db: asyncpg.Connection, number: str
) -> None:
    """PostgreSQL has numbers of any size; one would end every list that it is in. As text it is taken."""
    record = '{"id": "a", "text": "A", "attributes": {"in": [{"n": %s}]}}'

    with pytest.raises(asyncpg.InvalidParameterValueError, match="attributes hold a number beyond 1e308"):
        await db.fetch(PUT, NOTES, record % number)
    await db.fetch(PUT, NOTES, record % f'"{number}"')

    [found] = (await store.records(NOTES)).items
    assert found.attributes == {"in": [{"n": number}]}


@pytest.mark.parametrize("postgres_version", [18])
async def test_what_python_takes_is_taken(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The bounds are the same on their inner side, too."""
    check_texts(read_records(GOOD, Limits()), None)

    answered = await put(db, *GOOD)

    assert [row[0] for row in answered] == [record["id"] for record in GOOD]
    assert [lease.record_id for lease in await take(store, at=None)][:1] == ["lanes"]


@pytest.mark.parametrize(
    "records", ["[]", '"a"', "null", json.dumps([{"id": str(n), "text": "A"} for n in range(1001)])]
)
@pytest.mark.parametrize("postgres_version", [18])
async def test_a_request_has_one_to_a_thousand_records(
    store: PostgresStore, db: asyncpg.Connection, records: str
) -> None:
    """Anything else is refused as a whole."""
    del store
    with pytest.raises(asyncpg.InvalidParameterValueError, match="a list of 1 to 1000"):
        await db.fetch(PUT, NOTES, records)


async def test_an_id_comes_once(store: PostgresStore, db: asyncpg.Connection) -> None:
    """Which of two texts was meant is not guessed."""
    del store
    with pytest.raises(asyncpg.InvalidParameterValueError, match=r"2 of 2 .* stands here twice"):
        await put(db, {"id": "a", "text": "A"}, {"id": "a", "text": "B"})


async def test_a_text_is_made_of_attributes_as_in_python(store: PostgresStore, db: asyncpg.Connection) -> None:
    """The same record has the same text, and so the same hash, whoever puts it."""
    await store.declare(declaration("made", text_from=LISTED), now=NOON)
    texts = []
    for attributes in COMPOSED:
        try:
            texts.append(compose(LISTED, None, json.loads(json.dumps(attributes))))
        except Invalid:
            texts.append(None)
    good = [(n, text) for n, text in enumerate(texts) if text is not None]

    await put(db, *({"id": str(n), "attributes": COMPOSED[n]} for n, _ in good), collection="made")

    found = await db.fetch("SELECT id, text FROM embedq.record ORDER BY id")
    assert [
        (int(row["id"]), row["text"].replace('"a": [1, 2], "b": 1', '"b": 1, "a": [1, 2]')) for row in found
    ] == good
    for n in (2, 5):
        with pytest.raises(asyncpg.InvalidParameterValueError, match="nothing to embed"):
            await put(db, {"id": "x", "attributes": COMPOSED[n]}, collection="made")
    with pytest.raises(asyncpg.InvalidParameterValueError, match="send attributes, not text"):
        await put(db, {"id": "x", "text": "A", "attributes": {"title": "A"}}, collection="made")


async def test_where_nothing_can_be_put_is_said(store: PostgresStore, db: asyncpg.Connection) -> None:
    """No such collection, the rows of a table, and another tenant's ids."""
    await db.execute("CREATE TABLE docs (id int PRIMARY KEY, body text)")
    await attach(store, into=None)
    await put(db, {"id": "a", "text": "A", "tenant": "t"})

    with pytest.raises(asyncpg.UndefinedObjectError, match="no collection 'none'"):
        await put(db, {"id": "a", "text": "A"}, collection="none")
    with pytest.raises(asyncpg.PostgresError, match="write to that table"):
        await put(db, {"id": "a", "text": "A"}, collection="docs")
    with pytest.raises(asyncpg.PostgresError, match="write to that table"):
        await db.fetch(DELETE, "docs", ["a"])
    with pytest.raises(asyncpg.PostgresError, match=r'another tenant, so nothing is stored: \["a"\]'):
        await put(db, {"id": "a", "text": "A", "tenant": "other"})


async def test_a_queue_alone_takes_no_records(postgres_url: str) -> None:
    """They would have no text there."""
    queue = await PostgresJobStore.open(postgres_url)
    db = await asyncpg.connect(postgres_url)
    await db.execute("INSERT INTO embedq.space (provider, model) VALUES ('fake', '')")
    await db.execute(
        "INSERT INTO embedq.collection (name, space, priority, retry) SELECT 'notes', id, 1, $1 FROM embedq.space",
        json.dumps({"base": 1, "cap": 1, "factor": 1, "jitter": 0, "max_attempts": 1}),
    )

    with pytest.raises(asyncpg.PostgresError, match="holds the queue alone"):
        await put(db, {"id": "a", "text": "A"})

    await db.close()
    await queue.close()


async def test_writers_may_and_readers_may_not(roles: Roles) -> None:
    """The writer's role is enough; a reader is refused by the server."""
    store = await PostgresStore.open(roles.owner)
    await store.declare(declaration(embedder=EmbedderName(provider="fake", model="fake")), now=NOON)
    await store.close()
    writer, reader = await asyncpg.connect(roles.writer), await asyncpg.connect(roles.reader)

    assert [row[0] for row in await put(writer, {"id": "a", "text": "A"})] == ["a"]
    assert [row[0] for row in await writer.fetch(DELETE, NOTES, ["a"])] == ["a"]
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await put(reader, {"id": "a", "text": "A"})
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await reader.fetch(DELETE, NOTES, ["a"])

    await writer.close()
    await reader.close()
