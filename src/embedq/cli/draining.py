"""Wait until the queue is empty, and say meanwhile what is waited for."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.text import Text

from embedq.app import App
from embedq.cli.options import Json, Url, ask
from embedq.cli.output import console, print_json, say
from embedq.cli.rate import Rate
from embedq.operator import DrainReport
from embedq.operator.report import counted
from embedq.shapes.queue import Drained


def drain(
    *,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait at most.")] = 300,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Wait until nothing is left that can still move (when paused: until no job is leased).

    It ends with 1 when the time is over, and before that when nobody can work: no worker runs, or every embedder that
    is needed is halted.
    """
    report = ask(url, lambda app: _drain(app, timeout))
    if as_json:
        print_json(Drained.of(report))
    elif report.status == "drained":
        what = "no job is leased (the queue is paused)" if report.waited_for == "leased" else "the queue is empty"
        say(f"drained in {report.elapsed:.1f} s: {what}; {report.pending:,} pending")
    else:
        why = f": {report.reason}" if report.reason else ""
        say(f"after {report.elapsed:.1f} s {counted(report.remaining, 'job')} left{why}", shade="yellow")
    if report.status != "drained":
        raise typer.Exit(1)


async def _drain(app: App, timeout: float) -> DrainReport:  # noqa: ASYNC109 a timeout is an answer, not an error
    with _line() as show:
        return await app.operator.drain(timeout, progress=show)


@contextmanager
def _line() -> Iterator[Callable[[DrainReport], None]]:
    """Show what is waited for: a line that lives on a terminal, one sentence elsewhere."""
    if not sys.stderr.isatty():
        yield _once()
        return
    rate = Rate()
    with console(errors=True).status(Text("waiting"), spinner="line") as line:

        def show(report: DrainReport) -> None:
            rate.add(open_jobs=report.remaining)
            words = rate.words
            line.update(Text.assemble(_waits(report), ", " if words else "", words))

        yield show


def _once() -> Callable[[DrainReport], None]:
    said = False

    def show(report: DrainReport) -> None:
        nonlocal said
        if not said:
            said = True
            say(_waits(report), shade="dim", errors=True)

    return show


def _waits(report: DrainReport) -> str:
    if report.waited_for == "leased":
        return f"waiting for {counted(report.processing, 'leased job')} (the queue is paused)"
    return (
        f"waiting for {counted(report.remaining, 'job')}: {report.pending:,} pending, {report.processing:,} processing"
    )
