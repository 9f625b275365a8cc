"""Reading records."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from embedq.model import ContentHash, EmbeddingStatus, Freshness, Page, Reason, Record, RecordId, Shown
from embedq.policy.filters import check_filterable
from embedq.policy.texts import check_answer
from embedq.stores.columns import NO_BOUND, Listed, number, read_attributes
from embedq.stores.postgres.catalogue import Found, absent, find
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.filtering import conditions
from embedq.stores.postgres.keys import SPACE_BITS, job_id
from embedq.stores.postgres.moments import NOW

COLUMNS = """
x.rid, x.id, x.text, x.attributes, x.tenant, x.hash, x.created_at, x.updated_at, m.record IS NULL AS current,
CASE WHEN g.hash = x.hash THEN g.reason END AS reason, j.id AS job, j.serial
"""
JOINED = f"""
LEFT JOIN embedq.missing m ON m.collection = x.collection AND m.record = x.rid
LEFT JOIN embedq.given_up g ON g.collection = x.collection AND g.record = x.rid
LEFT JOIN embedq.job j ON j.id = (x.rid << {SPACE_BITS}) | $2::bigint
"""

# Some records by id, in the order requested. The vectors' table is left out where a space has none yet.
GET = f"""
SELECT {COLUMNS}, {{vector}} AS vector, {{truncated}} AS truncated FROM unnest($3::text[]) WITH ORDINALITY e (id, place)
JOIN embedq.record x ON x.collection = $1 AND x.id = e.id {JOINED} {{join}} WHERE x.valid_to IS NULL ORDER BY e.place
"""

# Records in the order of their ids. The limit is a literal, as in the lists of jobs.
LIST = f"""
SELECT {COLUMNS}, NULL AS vector, {{truncated}} AS truncated FROM embedq.record x {JOINED} {{join}}
WHERE x.collection = $1 AND x.id > $3 AND x.valid_to IS NULL {{filter}} ORDER BY x.id LIMIT {{limit}}
"""

# Records without a current vector, in the order they were first put.
LIST_PENDING = f"""
SELECT {COLUMNS}, NULL AS vector, false AS truncated FROM embedq.missing m
JOIN embedq.record x ON x.rid = m.record
LEFT JOIN embedq.given_up g ON g.collection = x.collection AND g.record = x.rid
LEFT JOIN embedq.job j ON j.id = (x.rid << {SPACE_BITS}) | $2::bigint
WHERE m.collection = $1 AND m.record > $3 AND g.hash IS DISTINCT FROM x.hash {{filter}}
ORDER BY m.record LIMIT {{limit}}
"""
LIST_FAILED = f"""
SELECT {COLUMNS}, NULL AS vector, false AS truncated FROM embedq.given_up g
JOIN embedq.record x ON x.rid = g.record AND x.hash = g.hash AND x.valid_to IS NULL
JOIN embedq.missing m ON m.collection = x.collection AND m.record = x.rid
LEFT JOIN embedq.job j ON j.id = (x.rid << {SPACE_BITS}) | $2::bigint
WHERE g.collection = $1 AND g.record > $3 {{filter}} ORDER BY g.record LIMIT {{limit}}
"""

# As much of a list as fits into a number of bytes of text and attributes, at least one; with the bytes up to each.
WITHIN = """
SELECT * FROM (
  SELECT p.*, sum(p.size) OVER (ROWS UNBOUNDED PRECEDING) AS bytes FROM (
    SELECT l.*, octet_length(l.text) + octet_length(l.attributes::text) AS size FROM ({statement}) l) p) q
WHERE q.bytes - q.size <= {most}
"""
FILTERABLE = "SELECT a.attributes FROM embedq.attachment a WHERE a.collection = $1"
HAS_VECTORS = "SELECT to_regclass(format('embedq.vector_%s', $1::int)) IS NOT NULL"

# How far vectors lag behind, and what is shown of some records, in the order requested. The oldest open job is ready,
# waiting, or leased. No row: there is no such collection; a row without an id: no such records.
FRESHNESS = f"""
SELECT t.*, {NOW} - o.oldest AS waits, embedq.unread(c.id) AS unread, embedq.doubt(c.id) AS doubt FROM c, LATERAL (
  SELECT coalesce(sum(open), 0) AS open, coalesce(sum(records), 0) AS records, coalesce(sum(missing), 0) AS missing
  FROM embedq.tally WHERE collection = c.id) t, embedq.oldest(c.id, c.space) o (oldest)
"""
SOME = """
SELECT x.id, x.text, x.attributes, m.record IS NULL AS current, e.place
FROM unnest($3::text[]) WITH ORDINALITY e (id, place)
JOIN embedq.record x ON x.collection = (SELECT c.id FROM c) AND x.id = e.id
LEFT JOIN embedq.missing m ON m.collection = x.collection AND m.record = x.rid WHERE x.valid_to IS NULL ORDER BY e.place
"""
SHOW = f"""
WITH c AS MATERIALIZED (SELECT id, space FROM embedq.collection WHERE name = $2)
SELECT f.*, r.id, r.text, r.attributes, r.current, r.bytes
FROM ({FRESHNESS}) f LEFT JOIN ({WITHIN.format(statement=SOME, most="$4::bigint")}) r ON true ORDER BY r.place
"""


async def get(
    db: Connection, name: str, records: Sequence[RecordId], *, with_vectors: bool, max_bytes: int | None
) -> list[Record]:
    """Read live records, in the order requested."""
    collection = await find(db, name)
    columns = {"vector": "v.embedding" if with_vectors else "NULL", "truncated": "v.truncated"}
    statement = await _with_vectors(db, GET, collection.space, **columns)
    if max_bytes is not None:
        statement = WITHIN.format(statement=statement, most=max_bytes)
    rows = await db.fetch(statement, collection.id, collection.space, list(dict.fromkeys(records)))
    if rows and max_bytes is not None:
        check_answer(rows[-1]["bytes"], len(rows), max_bytes)
    return [_record(collection, row) for row in rows]


async def page(db: Connection, name: str, which: Listed) -> Page[Record]:
    """List live records."""
    status, tenant, limit, cursor = which.status, which.tenant, which.limit, which.cursor
    collection = await find(db, name)
    wanted = None if status is None else EmbeddingStatus(status)
    by_id = wanted in (None, EmbeddingStatus.EMBEDDED)
    await _check_filterable(db, collection, which)
    filter_, values = conditions(which.wanted, "$5")
    filter_ += " AND $4::text IS NULL" if tenant is None else " AND x.tenant = $4"
    if by_id:
        filter_ += "" if wanted is None else " AND m.record IS NULL"
        columns = {"truncated": "v.truncated", "filter": filter_, "limit": str(limit)}
        statement = await _with_vectors(db, LIST, collection.space, **columns)
    else:
        statement = (LIST_PENDING if wanted is EmbeddingStatus.PENDING else LIST_FAILED).format(
            limit=limit, filter=filter_
        )
    after = (cursor or "") if by_id else number(cursor)
    statement = WITHIN.format(statement=statement, most=which.most - 1)
    asked = (collection.id, collection.space, after)
    rows = await db.fetch(statement, *asked, tenant, values)
    full = rows and (len(rows) == limit or rows[-1]["bytes"] >= which.most)
    following = str(rows[-1]["id" if by_id else "rid"]) if full else None
    return Page([_record(collection, row) for row in rows], following)


async def _check_filterable(db: Connection, collection: Found, which: Listed) -> None:
    if which.wanted is not None and collection.attached is not None:
        check_filterable(which.wanted, await db.fetchval(FILTERABLE, collection.id), collection.name or "")


async def _with_vectors(db: Connection, statement: str, space: int, **columns: str) -> str:
    """Write a statement that joins a space's vectors, if it has any."""
    if await db.fetchval(HAS_VECTORS, space):
        return statement.format(join=f"LEFT JOIN embedq.vector_{space} v ON v.record = x.rid", **columns)
    absent = dict.fromkeys(("vector", "truncated"), "NULL")
    return statement.format(join="", **{**columns, **absent})


async def show(
    db: Connection, name: str, records: Sequence[RecordId], max_bytes: int | None, now: datetime | None = None
) -> tuple[list[Shown], Freshness]:
    """Read what is shown of live records, and how far vectors lag behind."""
    wanted = list(dict.fromkeys(records))
    rows = await db.fetch(SHOW, now, name, wanted, NO_BOUND if max_bytes is None else max_bytes)
    if not rows:
        raise absent(name)
    check_answer(rows[-1]["bytes"] or 0, len(rows), max_bytes)
    shown = [
        Shown(RecordId(row["id"]), row["text"], read_attributes(row["attributes"]), row["current"])
        for row in rows
        if row["id"] is not None
    ]
    return shown, _freshness(rows[0])


def _freshness(row: Mapping[str, Any]) -> Freshness:
    covered = 1.0 if not row["records"] else (row["records"] - row["missing"]) / row["records"]
    return Freshness(
        coverage=covered if row["doubt"] is None else 0.0,
        pending=row["open"] + row["unread"],
        oldest_pending=None if row["waits"] is None else max(row["waits"], timedelta(0)),
        trouble=row["doubt"],
    )


def _record(collection: Found, row: Mapping[str, Any]) -> Record:
    current, reason = row["current"], row["reason"]
    if current:
        status = EmbeddingStatus.EMBEDDED
    else:
        status = EmbeddingStatus.PENDING if reason is None else EmbeddingStatus.FAILED
    return Record(
        id=RecordId(row["id"]),
        collection=collection.name or "",
        text=row["text"],
        attributes=read_attributes(row["attributes"]),
        tenant=row["tenant"],
        hash=ContentHash(row["hash"]),
        embedding_status=status,
        reason=Reason(reason) if reason and not current else None,
        truncated=bool(current and row["truncated"]),
        job_id=None if row["job"] is None else job_id(row["job"], row["serial"]),
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        vector=row["vector"],
    )
