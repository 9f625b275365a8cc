"""Deletes what a filter allows, step by step."""

from dataclasses import replace

from embedq.conditions import Filter, Selection
from embedq.errors import Invalid
from embedq.ports import Writing


async def delete_all(store: Writing, collection: str, wanted: Filter | None, *, purge: bool, tenant: str | None) -> int:
    """Delete records in transactions of bounded size; return how many. What fails on the way can be repeated."""
    if wanted is None:
        raise Invalid("filter is empty, which would be every record: say which ones, or drop the collection")
    which, deleted = Selection(filter=wanted, tenant=tenant), 0
    while True:
        gone = await store.delete_where(collection, which, purge=purge)
        deleted += len(gone.items)
        if gone.next_cursor is None:
            return deleted
        which = replace(which, after=gone.next_cursor)
