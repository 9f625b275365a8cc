"""The status page, refreshed."""

import asyncio

from rich.live import Live

from embedq.app import load, start
from embedq.cli.output import console, print_json
from embedq.cli.rate import Rate
from embedq.cli.statuspage import page
from embedq.operator import QueueStatus
from embedq.shapes import queue as shapes

REFRESH_SECONDS = 1.0
ENDED = ("completed", "failed", "cancelled")


async def watched(url: str | None) -> None:
    """Show the status until Ctrl-C."""
    settings, rate, screen = load(url=url), Rate(), console()
    async with start(settings, quiet=True, make=False) as app:
        with Live(console=screen, screen=screen.is_terminal, auto_refresh=False) as live:
            while True:
                found = await app.operator.status()
                _note(rate, found)
                size = {"width": screen.width, "height": screen.height}
                live.update(page(found, settings.shown_place, rate=rate.words, **size), refresh=True)
                await asyncio.sleep(REFRESH_SECONDS)


async def watched_lines(url: str | None) -> None:
    """Print the status as a line of JSON each time, until Ctrl-C."""
    async with start(load(url=url), quiet=True, make=False) as app:
        while True:
            print_json(shapes.QueueStatus.of(await app.operator.status()), indent=None)
            await asyncio.sleep(REFRESH_SECONDS)


def _note(rate: Rate, found: QueueStatus) -> None:
    open_jobs = found.total("pending") + found.total("processing")
    rate.add(open_jobs=open_jobs, ended=sum(found.total(state) for state in ENDED))
