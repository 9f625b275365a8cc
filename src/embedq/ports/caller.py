"""The thread of a caller without asyncio: its own database connection is used there, and nowhere else."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
OnThread = Callable[[Callable[[], Any]], Awaitable[Any]]

# How the running call reaches its caller's thread. None: the caller runs this event loop itself.
CALLERS_THREAD: ContextVar[OnThread | None] = ContextVar("embedq_callers_thread", default=None)


async def on_callers_thread(work: Callable[[], T]) -> T:
    """Do this on the thread of whoever waits for this call."""
    reach = CALLERS_THREAD.get()
    if reach is None:
        return work()
    done: T = await reach(work)
    return done


def refuse_without_asyncio() -> None:
    """Refuse a connection for asyncio if the caller has none: its loop is not the one that runs here."""
    if CALLERS_THREAD.get() is not None:
        raise TypeError(
            "a connection for asyncio cannot be used here: hand over one without, such as psycopg.connect's"
        )
