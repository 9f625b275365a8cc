"""Write records: compare with what is stored, write what differs, arm what must be embedded."""

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from embedq.errors import NotFound
from embedq.exchange import Written
from embedq.model import EmbeddingStatus, JobId, NewRecord, Patch, Receipt, RecordId
from embedq.policy.jobs import put_arms
from embedq.policy.tenants import anothers
from embedq.policy.texts import Limits, patched
from embedq.stores.columns import OPEN, read_status
from embedq.stores.composing import Row, compose_all
from embedq.stores.sqlite.arming import TRY_AGAIN, Arms, arm, note_missing, raise_priority
from embedq.stores.sqlite.collections import Found, find
from embedq.stores.sqlite.keys import KEY, PURGED
from embedq.stores.sqlite.transaction import Transaction, ids

# What is stored of the records that are put, with vector and job.
LOOK_UP = """
SELECT x.id, x.rid, x.hash, x.valid_to IS NULL, x.text, x.attributes, x.tenant,
  CASE WHEN v.embedding IS NOT NULL THEN v.hash END, x.given_up_hash = x.hash, j.id, j.status, j.priority
FROM json_each(?1) e CROSS JOIN embedq_record x ON x.collection = ?2 AND x.id = e.value
LEFT JOIN embedq_vector v ON v.record = x.rid AND v.space = ?3
LEFT JOIN embedq_job j ON j.record = x.rid AND j.space = ?3
"""

# New records; the hashes come as one blob, sliced by position.
INSERT = """
INSERT INTO embedq_record (rid, collection, id, hash, text, attributes, tenant, created_at, updated_at)
SELECT ?1 + e.key, ?2, e.value ->> 0, substr(?3, 1 + e.key * 32, 32), e.value ->> 1, e.value ->> 2, e.value ->> 3,
  ?4, ?4
FROM json_each(?5) e
"""

# Their jobs, their queue positions, and their missing vectors: all new, so nothing needs to be looked up.
INSERT_JOBS = """
INSERT INTO embedq_job (id, record, collection, space, priority, queued_at, hash, created_at)
SELECT ?1 + rid - ?2, rid, collection, ?3, ?4, ?5, hash, ?5 FROM embedq_record WHERE rid BETWEEN ?2 AND ?6
"""
INSERT_READY = f"""
INSERT INTO embedq_ready SELECT j.space, {KEY}, j.id, j.collection FROM embedq_job j WHERE j.id BETWEEN ? AND ?
"""
INSERT_MISSING = "INSERT INTO embedq_missing SELECT ?, rid FROM embedq_record WHERE rid BETWEEN ? AND ?"

# Records that exist, live or deleted.
UPDATE = """
UPDATE embedq_record SET hash = substr(?1, 1 + e.key * 32, 32), text = e.value ->> 1, attributes = e.value ->> 2,
  tenant = e.value ->> 3, updated_at = ?2, valid_to = NULL
FROM json_each(?3) e WHERE embedq_record.rid = e.value ->> 0
"""

# Numbers that were never used: AUTOINCREMENT remembers the highest one.
HIGHEST = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?"


class _There(NamedTuple):
    """A stored record."""

    id: str
    rid: int
    hash: bytes
    live: int
    text: str
    attributes: str
    tenant: str | None
    vector_hash: bytes | None  # of the text that its stored vector was made from
    given_up: int | None
    job: int | None
    status: int | None
    priority: int | None


def put(tx: Transaction, name: str, records: Sequence[NewRecord], limits: Limits, now: int) -> list[Receipt]:
    """Write records and arm their jobs, all or none."""
    collection, rows, there = _prepared(tx, name, records, limits)
    receipts = _insert(tx, collection, [row for row in rows if row.id not in there], now)
    receipts |= _update(tx, collection, [(row, there[row.id]) for row in rows if row.id in there], now)
    return [receipts[row.id] for row in rows]


def write(tx: Transaction, name: str, records: Sequence[NewRecord], limits: Limits, now: int) -> list[Written]:
    """Write records without jobs, all or none: their jobs are in another database."""
    collection, rows, there = _prepared(tx, name, records, limits)
    _insert_records(tx, collection, [row for row in rows if row.id not in there], now)
    _write_known(tx, collection, [(row, there[row.id]) for row in rows if row.id in there], now)
    return [_written(row, there.get(row.id)) for row in rows]


def _prepared(
    tx: Transaction, name: str, records: Sequence[NewRecord], limits: Limits
) -> tuple[Found, list[Row], dict[str, "_There"]]:
    """Find the collection, make the texts, and look up what is stored."""
    collection = find(tx.db, name)
    rows = compose_all(collection, records, limits)
    there = _look_up(tx, collection, [row.id for row in rows])
    _check_tenants(rows, there)
    return collection, rows, there


def patch(tx: Transaction, name: str, record: RecordId, change: Patch, limits: Limits, now: int) -> Receipt:
    """Merge a change into a live record."""
    collection = find(tx.db, name)
    row, there = _merged(tx, collection, record, change, limits)
    return _update(tx, collection, [(row, there)], now)[record]


def write_patch(tx: Transaction, name: str, record: RecordId, change: Patch, limits: Limits, now: int) -> Written:
    """Merge a change into a live record whose job is in another database."""
    collection = find(tx.db, name)
    row, there = _merged(tx, collection, record, change, limits)
    _write_known(tx, collection, [(row, there)], now)
    return _written(row, there)


def _merged(
    tx: Transaction, collection: Found, record: RecordId, change: Patch, limits: Limits
) -> tuple[Row, "_There"]:
    there = _look_up(tx, collection, [record]).get(record)
    if there is None or not there.live or (change.tenant is not None and change.tenant != there.tenant):
        raise NotFound(f"no record {record!r} in collection {collection.name!r}")
    stored = NewRecord(id=record, text=there.text, attributes=json.loads(there.attributes), tenant=there.tenant)
    [row] = compose_all(collection, [patched(stored, change, collection.text_from, limits)], limits)
    return row, there


def _look_up(tx: Transaction, collection: Found, wanted: Sequence[str]) -> dict[str, _There]:
    listed = json.dumps(wanted, ensure_ascii=False)
    rows = tx.db.execute(LOOK_UP, (listed, collection.id, collection.space))
    return {row[0]: _There(*row) for row in rows}


def _check_tenants(rows: Sequence[Row], there: dict[str, _There]) -> None:
    known = ((row, there[row.id]) for row in rows if row.id in there)
    foreign = [row.id for row, old in known if old.tenant != row.tenant and old.hash != PURGED]
    if foreign:
        raise anothers(foreign)


def _insert(tx: Transaction, collection: Found, rows: Sequence[Row], now: int) -> dict[str, Receipt]:
    """Insert new records with their jobs."""
    if not rows:
        return {}
    jobs = _insert_jobs(tx, collection, rows, _insert_records(tx, collection, rows, now), now)
    return {row.id: _pending(row.id, jobs[position]) for position, row in enumerate(rows)}


def _insert_records(tx: Transaction, collection: Found, rows: Sequence[Row], now: int) -> int:
    """Insert new records with a few set statements; return the first one's number."""
    if not rows:
        return 0
    (rid,) = tx.db.execute(HIGHEST, ("embedq_record",)).fetchone()
    first, last = rid + 1, rid + len(rows)
    values = json.dumps([(row.id, row.text, row.attributes, row.tenant) for row in rows], ensure_ascii=False)
    hashes = b"".join(row.hash for row in rows)
    tx.db.execute(INSERT, (first, collection.id, hashes, now, values))
    tx.db.execute(INSERT_MISSING, (collection.id, first, last))
    tx.tally(collection.id, records=len(rows), missing=len(rows))
    tx.fresh.append((collection.id, first, last))
    return int(first)


def _insert_jobs(tx: Transaction, collection: Found, rows: Sequence[Row], first: int, now: int) -> Sequence[int]:
    if len({row.priority for row in rows}) > 1:
        return _insert_mixed(tx, collection, rows, first, now)
    (job,) = tx.db.execute(HIGHEST, ("embedq_job",)).fetchone()
    last = first + len(rows) - 1
    tx.db.execute(INSERT_JOBS, (job + 1, first, collection.space, rows[0].priority, now, last))
    tx.db.execute(INSERT_READY, (job + 1, job + len(rows)))
    tx.tally(collection.id, open_=len(rows))
    tx.wakes = True
    return range(job + 1, job + 1 + len(rows))


def _insert_mixed(tx: Transaction, collection: Found, rows: Sequence[Row], first: int, now: int) -> Sequence[int]:
    """Arm new records whose priorities differ, lane by lane."""
    jobs = _arm_by_priority(tx, collection, [(row.priority, first + n) for n, row in enumerate(rows)], now)
    return [jobs[first + position] for position in range(len(rows))]


def _update(tx: Transaction, collection: Found, pairs: Sequence[tuple[Row, _There]], now: int) -> dict[str, Receipt]:
    """Write existing records; arm those that the rules say [3]."""
    moved = _update_records(tx, collection, pairs, now)
    armed = [(row, old) for row, old in pairs if _must_arm(row, old)]
    jobs = _arm_by_priority(tx, collection, [(row.priority, old.rid) for row, old in armed], now)
    if moved:
        note_missing(tx, moved, collection.id, collection.space)
    _raise(tx, [(row, old) for row, old in pairs if old.rid not in jobs])
    return {row.id: _receipt(row, old, jobs.get(old.rid)) for row, old in pairs}


def _write_known(tx: Transaction, collection: Found, pairs: Sequence[tuple[Row, _There]], now: int) -> None:
    """Write existing records; a text that is put again is no longer given up on."""
    moved = _update_records(tx, collection, pairs, now)
    if moved:
        note_missing(tx, moved, collection.id, collection.space)
        tx.db.execute(TRY_AGAIN, (ids(moved),))


def _update_records(tx: Transaction, collection: Found, pairs: Sequence[tuple[Row, _There]], now: int) -> list[int]:
    """Write existing records that differ; return those whose text did, or that are live again."""
    changed = [(row, old) for row, old in pairs if _differs(row, old)]
    if changed:
        values = json.dumps(
            [(old.rid, row.text, row.attributes, row.tenant) for row, old in changed], ensure_ascii=False
        )
        tx.db.execute(UPDATE, (b"".join(row.hash for row, _ in changed), now, values))
        tx.tally(collection.id, records=sum(not old.live for _, old in changed))
    for row, old in changed:
        if not old.live or row.hash != old.hash:
            tx.remember_words(collection.id, old.rid, old.text if old.live else None)
    return [old.rid for row, old in pairs if not old.live or row.hash != old.hash]


def _differs(row: Row, old: _There) -> bool:
    return not old.live or (row.hash, row.attributes) != (old.hash, old.attributes)


def _must_arm(row: Row, old: _There) -> bool:
    return put_arms(read_status(old.status), same=_is_same(row, old), has_vector=row.hash == old.vector_hash)


def _arm_by_priority(tx: Transaction, collection: Found, wanted: Sequence[tuple[int, int]], now: int) -> dict[int, int]:
    lanes: dict[int, list[int]] = defaultdict(list)
    for priority, rid in wanted:
        lanes[priority].append(rid)
    jobs: dict[int, int] = {}
    for priority, rids in lanes.items():
        how = Arms(collection=collection.id, space=collection.space, priority=priority)
        jobs |= arm(tx, rids, how, now)
    return jobs


def _raise(tx: Transaction, pairs: Sequence[tuple[Row, _There]]) -> None:
    """Raise priorities: a repeated put keeps the higher one."""
    for row, old in pairs:
        if old.status == OPEN and old.job is not None and row.priority > (old.priority or 0):
            raise_priority(tx, [old.job], row.priority)


def _written(row: Row, old: _There | None) -> Written:
    told = (RecordId(row.id), row.hash, row.tenant, row.priority)
    if old is None:
        return Written(*told, same=False, current=False, given_up=False)
    same = _is_same(row, old)
    return Written(*told, same, row.hash == old.vector_hash, given_up=same and bool(old.given_up))


def _is_same(row: Row, old: _There) -> bool:
    return bool(old.live) and row.hash == old.hash


def _pending(record: str, job: int) -> Receipt:
    return Receipt(id=RecordId(record), embedding_status=EmbeddingStatus.PENDING, job_id=JobId(str(job)))


def _receipt(row: Row, old: _There, armed: int | None) -> Receipt:
    job = armed or old.job
    same = _is_same(row, old)
    if row.hash == old.vector_hash:
        status = EmbeddingStatus.EMBEDDED
    elif same and old.given_up and armed is None:
        status = EmbeddingStatus.FAILED
    else:
        status = EmbeddingStatus.PENDING
    return Receipt(id=RecordId(row.id), embedding_status=status, job_id=JobId(str(job)) if job else None)
