"""Repeats store calls that must succeed, so that no paid vector is lost."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeVar

from embedq.errors import StoreError, StoreUnusable
from embedq.model import RetryPolicy
from embedq.policy.attempts import delay
from embedq.telemetry import Trouble
from embedq.worker.context import WorkerContext

T = TypeVar("T")

STORE_RETRY = RetryPolicy(base=timedelta(milliseconds=200), cap=timedelta(seconds=5), max_attempts=80)  # six minutes


async def with_retry(
    context: WorkerContext,
    trouble: Trouble,
    act: Callable[[], Awaitable[T]],
    **facts: Any,  # noqa: ANN401 whatever the report shows
) -> T:
    """Do something that may be done twice, until the store does it, the worker stops, or too many tries failed."""
    tries = 0
    while True:
        try:
            done = await act()
        except StoreUnusable:
            raise
        except StoreError as error:
            tries += 1
            trouble.met(str(error), **facts, tries=tries)
            if tries >= STORE_RETRY.max_attempts or context.stopping.is_set():
                raise
        else:
            trouble.over()
            return done
        await context.sleep(delay(STORE_RETRY, tries - 1, context.timing.chance()))
