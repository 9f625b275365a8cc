"""What a queue in another database needs of records: it reads texts and stores vectors."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from embedq.exchange import Loss, Sizes, Standing, Text
from embedq.model import Done, Outcome, RecordId, SpaceId
from embedq.policy.jobs import RecordAnswer
from embedq.stores.columns import number
from embedq.stores.postgres import listing
from embedq.stores.postgres.catalogue import find
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.vectors import encode_all

Answer = RecordAnswer | None  # None: another transaction holds the record

# Texts with their hashes. The mark changes with an erasure, and differs for a later record with the same id.
TEXTS = """
SELECT c.name, x.id, x.text, x.hash, m.record IS NULL AS current, coalesce(x.erased, -x.rid) AS mark
FROM unnest($2::text[], $3::text[]) u (collection, id)
JOIN embedq.collection c ON c.name = u.collection AND c.space = embedq.space_number($1)
JOIN embedq.record x ON x.collection = c.id AND x.id = u.id AND x.valid_to IS NULL
LEFT JOIN embedq.missing m ON m.collection = c.id AND m.record = x.rid
"""

# How records compare with the texts that were leased.
ANSWERS = """
SELECT x.valid_to IS NULL AND x.rid IS NOT NULL AS live, x.hash = u.hash AS same, m.record IS NULL AS current
FROM unnest($2::text[], $3::bytea[]) WITH ORDINALITY u (id, hash, n)
LEFT JOIN embedq.record x ON x.collection = $1 AND x.id = u.id
LEFT JOIN embedq.missing m ON m.collection = $1 AND m.record = x.rid ORDER BY u.n
"""
HOME = """
SELECT c.id, c.space FROM embedq.collection c JOIN embedq.space s ON s.id = c.space
WHERE c.name = $1 AND embedq.name_of(s) = $2
"""
STORE = "SELECT embedq.store_records($1, $2, $3, $4, $5, $6, $7, $8)"
READ_ANSWER = {0: RecordAnswer.GONE, 1: RecordAnswer.CHANGED, 2: RecordAnswer.FITS, None: None}

STANDING = "x.rid, x.id, x.hash, x.tenant, m.record IS NULL AS current, coalesce(g.hash = x.hash, false) AS given_up"
SOME = f"""
SELECT {STANDING} FROM embedq.record x LEFT JOIN embedq.missing m ON m.collection = x.collection AND m.record = x.rid
LEFT JOIN embedq.given_up g ON g.collection = x.collection AND g.record = x.rid
WHERE x.collection = $1 AND x.id = ANY ($2) AND x.valid_to IS NULL
"""
MISSING = f"""
SELECT {STANDING} FROM embedq.missing m JOIN embedq.record x ON x.rid = m.record
LEFT JOIN embedq.given_up g ON g.collection = m.collection AND g.record = m.record
WHERE m.collection = $1 AND m.record > $2 ORDER BY m.record LIMIT $3
"""
GIVE_UP = "SELECT embedq.give_up_texts($1, $2, $3, $4)"
TRY_AGAIN = "SELECT embedq.try_again($1, $2)"


async def texts(
    db: Connection, space: SpaceId, wanted: Mapping[str, Sequence[RecordId]]
) -> dict[str, dict[RecordId, Text]]:
    """Read texts with their hashes, by collection, in one statement."""
    pairs = [(name, record) for name, records in wanted.items() for record in records]
    found: dict[str, dict[RecordId, Text]] = defaultdict(dict)
    for row in await db.fetch(TEXTS, space, [name for name, _ in pairs], [record for _, record in pairs]):
        found[row["name"]][RecordId(row["id"])] = Text(row["text"], row["hash"], row["current"], row["mark"])
    return found


async def store(db: Connection, outcomes: Sequence[Outcome], now: datetime | None) -> list[Answer]:
    """Store the vectors that fit, and say for each record whether it has the text that was leased."""
    answers: list[Answer] = [RecordAnswer.GONE] * len(outcomes)
    for name, space, places in _batches(outcomes):
        home = await db.fetchrow(HOME, name, space)
        if home is not None:
            batch = [outcomes[place] for place in places]
            found = await (_store if _is_paid(batch[0]) else _look)(db, home, batch, now)
            for place, answer in zip(places, found, strict=True):
                answers[place] = answer
    return answers


def _batches(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, SpaceId, list[int]]]:
    """Group outcomes by collection, so that those with a vector are together and no record is in a group twice."""
    seen: dict[tuple[str, RecordId], int] = defaultdict(int)
    parts: dict[tuple[int, bool, str, SpaceId], list[int]] = defaultdict(list)
    for place, outcome in enumerate(outcomes):
        lease = outcome.lease
        turn = seen[lease.collection, lease.record_id]
        seen[lease.collection, lease.record_id] += 1
        parts[turn, not _is_paid(outcome), lease.collection, lease.space].append(place)
    for (_, _, name, space), places in sorted(parts.items()):
        yield name, space, places


def _is_paid(outcome: Outcome) -> bool:
    return isinstance(outcome, Done) and outcome.vector is not None


async def _store(db: Connection, home: Any, batch: Sequence[Outcome], now: datetime | None) -> list[Answer]:  # noqa: ANN401 a row
    done = [outcome for outcome in batch if isinstance(outcome, Done)]
    leases = [outcome.lease for outcome in batch]
    found = await db.fetchval(
        STORE,
        home["id"],
        home["space"],
        [lease.record_id for lease in leases],
        [lease.hash for lease in leases],
        [outcome.truncated for outcome in done],
        encode_all([outcome.vector for outcome in done]),
        [lease.erasure for lease in leases],
        now,
    )
    return [READ_ANSWER[answer] for answer in found]


async def _look(db: Connection, home: Any, batch: Sequence[Outcome], now: datetime | None) -> list[Answer]:  # noqa: ANN401 a row
    """Compare records whose attempts brought no vector; one that found the stored one current must be right."""
    del now
    leases = [outcome.lease for outcome in batch]
    rows = await db.fetch(ANSWERS, home["id"], [lease.record_id for lease in leases], [lease.hash for lease in leases])
    return [_answer(outcome, row) for outcome, row in zip(batch, rows, strict=True)]


def _answer(outcome: Outcome, row: Any) -> RecordAnswer:  # noqa: ANN401 a row
    if not row["live"]:
        return RecordAnswer.GONE
    fits = row["same"] and (row["current"] or not isinstance(outcome, Done))
    return RecordAnswer.FITS if fits else RecordAnswer.CHANGED


async def standing(db: Connection, name: str, records: Sequence[RecordId]) -> list[Standing]:
    """Return the state of live records."""
    collection = await find(db, name)
    return [_standing(row) for row in await db.fetch(SOME, collection.id, list(records))]


async def missing(db: Connection, name: str, after: str | None, limit: int) -> list[Standing]:
    """List live records without a current vector."""
    collection = await find(db, name)
    return [_standing(row) for row in await db.fetch(MISSING, collection.id, number(after), limit)]


async def give_up(db: Connection, name: str, losses: Sequence[Loss]) -> None:
    """Note which texts were given up on."""
    columns = [loss.id for loss in losses], [loss.hash for loss in losses], [str(loss.reason) for loss in losses]
    await db.execute(GIVE_UP, (await find(db, name)).id, *columns)


async def try_again(db: Connection, name: str, records: Sequence[RecordId]) -> None:
    """Clear the note that texts were given up on."""
    await db.execute(TRY_AGAIN, (await find(db, name)).id, list(records))


async def sizes(db: Connection) -> dict[str, Sizes]:
    """Count records per collection."""
    counted = await listing.counts(db)
    return {name: Sizes(one.records, one.missing, one.truncated, one.unsure) for name, one in counted.items()}


def _standing(row: Any) -> Standing:  # noqa: ANN401 a row
    told = RecordId(row["id"]), row["hash"], row["tenant"], row["current"], row["given_up"]
    return Standing(*told, key=str(row["rid"]))
