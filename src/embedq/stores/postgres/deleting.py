"""Delete the records that a filter allows."""

from datetime import datetime

from embedq.conditions import Selection
from embedq.model import Page, RecordId
from embedq.stores.postgres.catalogue import find
from embedq.stores.postgres.connection import Connection
from embedq.stores.postgres.filtering import conditions
from embedq.stores.postgres.keeping import DELETE_RECORDS

# The next records that a filter allows; for a purge also those that were deleted before and are not erased.
ALLOWED = """
SELECT x.rid, x.id FROM embedq.record x WHERE x.collection = $1 AND x.id > $2
  AND (x.valid_to IS NULL OR ($3::boolean AND x.hash <> '')) AND ($4::text IS NULL OR x.tenant = $4) {filter}
ORDER BY x.id LIMIT $6
"""

# Those of them that it still allows, once nobody can change them any more; locked in the order that all writers keep.
LOCKED = """
SELECT x.id FROM embedq.record x WHERE x.rid = ANY ($1::bigint[]) {filter} ORDER BY x.rid FOR {lock}
"""
LOCKS = {False: "NO KEY UPDATE", True: "UPDATE"}  # by whether they are purged, as `delete_record_rows` locks them


async def delete_where(
    db: Connection, name: str, which: Selection, now: datetime | None, *, purge: bool
) -> Page[RecordId]:
    """Delete the next records that a filter allows."""
    async with db.transaction():
        collection = await find(db, name)
        collection.check_writable()
        sql, values = conditions(which.filter, "$5")
        asked = (collection.id, which.after, purge, which.tenant, values, which.limit)
        found = await db.fetch(ALLOWED.format(filter=sql), *asked)
        sql, values = conditions(which.filter, "$2")
        rids = [row["rid"] for row in found]
        ids = [row["id"] for row in await db.fetch(LOCKED.format(filter=sql, lock=LOCKS[purge]), rids, values)]
        gone = await db.fetchval(DELETE_RECORDS, collection.id, collection.space, ids, purge, now, which.tenant)
    return Page([RecordId(id_) for id_ in gone], found[-1]["id"] if len(found) == which.limit else None)
