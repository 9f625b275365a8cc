"""The conditions of a filter on jobs that are not about their status."""

import sqlite3
from typing import Any

from embedq.model import JobFilter
from embedq.stores.sqlite.collections import find


def narrowing(db: sqlite3.Connection, which: JobFilter) -> tuple[list[str], list[Any]]:
    """Write the conditions on job `j` and record `x` by collection, reason and tenant, and their values."""
    wanted = {
        "j.collection = ?": None if which.collection is None else find(db, which.collection).id,
        "j.reason = ?": which.reason,
        "x.tenant = ?": which.tenant,
    }
    given = {condition: value for condition, value in wanted.items() if value is not None}
    return list(given), list(given.values())
