"""The attached tables and their progress."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from embedq.attachment import Attached
from embedq.stores.postgres.attaching.attaching import COLUMNS, read
from embedq.stores.postgres.database import Database

LIST = f"""
SELECT {COLUMNS}, c.name AS home, a.made_for, a.rows, a.seen, embedq.trouble_of(a) AS problem, a.adopted,
  a.walked_to IS NOT NULL OR a.pruned_to IS NOT NULL AS walking,
  EXISTS (SELECT FROM pg_class p WHERE p.oid = a.source AND p.relrowsecurity) AS row_security,
  (SELECT pg_get_userbyid(t.relowner) FROM pg_class t JOIN pg_class e ON e.oid = 'embedq.attachment'::regclass
   WHERE t.oid = a.source AND t.relowner <> e.relowner) AS trusts,
  embedq.noted_rows(a.id) AS noted,
  (SELECT count(*) FROM embedq.unplaced u WHERE u.attachment = a.id AND u.given_up) AS given_up,
  (SELECT count(*) FROM embedq.refused r WHERE r.attachment = a.id) AS refusals,
  (SELECT coalesce(jsonb_object_agg(r.id, r.reason), '{{}}') FROM (
    SELECT * FROM embedq.refused WHERE attachment = a.id ORDER BY key LIMIT 10) r)::text AS refused
FROM embedq.attachment a JOIN embedq.collection c ON c.id = a.collection ORDER BY c.name COLLATE "C"
"""
GATHER = "SELECT g.*, c.name FROM embedq.gather($1, $2, $3) g LEFT JOIN embedq.collection c ON c.id = g.home"


async def listing(database: Database) -> list[Attached]:
    """List the attached tables."""
    return [_attached(row) for row in await database.fetch(LIST)]


async def gather(database: Database, after: int, limit: int, text_bytes: int) -> Sequence[Mapping[str, Any]]:
    """Take over some of what tables have noted; a row per table, with what was done and what blocks it."""
    return await database.fetch(GATHER, after, limit, text_bytes)


def _attached(row: Any) -> Attached:  # noqa: ANN401 a row
    return Attached(
        collection=row["home"],
        attachment=read(row),
        rows=row["rows"],
        seen=row["seen"],
        walking=row["walking"],
        noted=row["noted"],
        refused=json.loads(row["refused"]),
        refusals=row["refusals"],
        problem=row["problem"],
        given_up=row["given_up"],
        adopted=row["adopted"],
        row_security=row["row_security"],
        trusts=row["trusts"],
    )
