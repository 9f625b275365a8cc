"""The doctor's checks beyond the database."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from time import perf_counter

from embedq.embedding import Purpose
from embedq.errors import EmbedderError, SettingsError, StoreError
from embedq.model import EmbedderName
from embedq.operator.report import Finding, Verdict
from embedq.policy.vectors import checked
from embedq.ports import Declaring, Embedder

MIB = 1 << 20
SCARCE, GONE = 1024 * MIB, 64 * MIB
TIMEOUT_SECONDS = 30.0  # a model may have to load
SAMPLE = "Is anybody there?"

Probe = Callable[[], Awaitable[Sequence[Finding]]]


def disk_probe(folder: Path) -> Probe:
    """Check the free disk space next to the database."""

    async def probe() -> Sequence[Finding]:
        try:
            free = (await asyncio.to_thread(shutil.disk_usage, folder)).free
        except OSError as error:
            return [
                Finding(check="disk", verdict=Verdict.PROBLEM, message=f"{folder} cannot be read: {error.strerror}")
            ]
        verdict = Verdict.PROBLEM if free < GONE else Verdict.WARNING if free < SCARCE else Verdict.OK
        advice = "" if verdict is Verdict.OK else ": free some, a write on a full disk is refused"
        return [Finding(check="disk", verdict=verdict, message=f"{free // MIB:,} MiB free{advice}")]

    return probe


def embedder_probe(
    store: Declaring, get: Callable[[EmbedderName], Awaitable[Embedder]], default: EmbedderName
) -> Probe:
    """Embed one short text with each embedder that collections use, or with the default if there are none."""

    async def probe() -> Sequence[Finding]:
        try:
            used = {space.embedder for space in await store.spaces()} or {default}
        except StoreError:  # the database has a finding of its own
            used = {default}
        return await asyncio.gather(*(_ask(get, name) for name in sorted(used, key=str)))

    return probe


async def _ask(get: Callable[[EmbedderName], Awaitable[Embedder]], name: EmbedderName) -> Finding:
    """Embed a short text, which needs the key, the weights and the network."""
    started = perf_counter()
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            answer = await (await get(name)).embed([SAMPLE], Purpose.DOCUMENT)
            rows = checked(answer.vectors, texts=1, dimensions=None)
    except (EmbedderError, SettingsError) as error:
        return Finding(check="embedder", verdict=Verdict.PROBLEM, message=f"{name}: {error}")
    except TimeoutError:
        message = f"{name} did not answer within {TIMEOUT_SECONDS:g} s"
        return Finding(check="embedder", verdict=Verdict.PROBLEM, message=message)
    took = f"{rows.shape[1]} dimensions in {perf_counter() - started:.2f} s"
    return Finding(check="embedder", verdict=Verdict.OK, message=f"{name} answers with {took}")
