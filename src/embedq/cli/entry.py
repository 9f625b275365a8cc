"""The commands, and their exit codes: 0 done, 1 refused or failed, 2 wrong usage."""

import inspect
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from embedq import __version__
from embedq.cli import attach, bench, collections, data, dead, doctor, draining, model, queue, records, running, search
from embedq.cli.output import complain
from embedq.cli.streams import accept_all, drop_output
from embedq.errors import EmbedqError

RUN, DATA, COLLECTIONS, TABLES, OPERATE = "Run", "Records", "Collections", "Tables", "Operate"
PANELS: Mapping[str, Mapping[str, Callable[..., None]]] = {
    RUN: {"up": running.up, "serve": running.serve, "work": running.work, "init": running.init},
    DATA: {
        "put": data.put,
        "import": data.import_,
        "search": search.search,
        "embed": search.embed,
        "get": records.get,
        "list": records.list_,
        "delete": records.delete,
        "export": records.export,
    },
    COLLECTIONS: {"declare": collections.declare, "collections": collections.collections, "drop": collections.drop},
    TABLES: {"attach": attach.attach, "detach": attach.detach, "attachments": attach.attachments},
    OPERATE: {
        "status": queue.status,
        "jobs": queue.jobs,
        "cancel": queue.cancel,
        "pause": queue.pause,
        "resume": queue.resume,
        "drain": draining.drain,
        "retry-failed": queue.retry_failed,
        "requeue-stale": queue.requeue_stale,
        "repair": queue.repair,
        "doctor": doctor.doctor,
        "bench": bench.bench,
    },
}
GROUPS: Mapping[str, Mapping[str, typer.Typer]] = {
    RUN: {"model": model.commands},
    OPERATE: {"dead": dead.commands},
}
# Typer would suggest `work`, which starts workers.
ELSEWHERE = {"workers": "`embedq status` shows the workers, `embedq work` runs some."}


def _help_of(command: Callable[..., None]) -> str:
    """Join the lines of each paragraph of a docstring: the terminal wraps them again."""
    paragraphs = (inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


class Commands(TyperGroup):
    """The commands, with hints for words that Typer's suggestions would misread."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[Any, Any, list[str]]:  # noqa: ANN401 typer's own types
        """Find the command, or suggest one."""
        if args and args[0] in ELSEWHERE:
            ctx.fail(f"No such command {args[0]!r}: {ELSEWHERE[args[0]]}")
        return super().resolve_command(ctx, args)


commands = typer.Typer(
    name="embedq",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _panel, _entries in PANELS.items():
    for _name, _command in _entries.items():
        commands.command(_name, help=_help_of(_command), rich_help_panel=_panel)(_command)
for _panel, _groups in GROUPS.items():
    for _name, _group in _groups.items():
        commands.add_typer(_group, name=_name, rich_help_panel=_panel)


def _say_version(value: bool) -> None:  # noqa: FBT001 typer's signature
    if value:
        typer.echo(f"embedq {__version__}")
        raise typer.Exit


@commands.callback()
def _embedq(
    *,
    _version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say the version and leave.")
    ] = False,
) -> None:
    """Keep vectors in step with data: write records now, embed them in the background, find them by meaning."""


def main() -> None:
    """Run the command line; embedq's own errors are printed as one message, without a traceback."""
    accept_all()
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup has it ignored
            signal.signal(number, _leave)
    try:
        _run()
    except BrokenPipeError:  # whoever read the output has enough
        drop_output()
        sys.exit(1)


def _leave(number: int, _: object) -> None:
    """End a command as Ctrl-C does: an import resumes, an export removes its draft. A second signal ends it at once."""
    signal.signal(number, signal.SIG_DFL)
    sys.exit(128 + number)  # as a shell says it


def _run() -> None:
    try:
        commands(prog_name="embedq")
    except EmbedqError as error:
        complain(str(error))
        sys.exit(1)
    except TimeoutError as error:
        complain(str(error) or "it took too long")
        sys.exit(1)
    finally:
        sys.stdout.flush()
