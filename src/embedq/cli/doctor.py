"""The command that checks everything that commonly goes wrong."""

from typing import Annotated

import typer
from rich.text import Text

from embedq.cli.options import Json, Url, ask
from embedq.cli.output import SHADES, console, print_json
from embedq.cli.tables import Cell, Column, table
from embedq.errors import NotFound, StoreError
from embedq.operator import Finding, Verdict
from embedq.shapes.queue import Checkup

MARKS = {Verdict.OK: "✓", Verdict.WARNING: "!", Verdict.PROBLEM: "✗"}
FINDINGS = (Column(name=""), Column(name="check"), Column(name="finding", least=20, wraps=True))


Repair = Annotated[bool, typer.Option("--repair", help="Queue open jobs again that are in no place or in several.")]


def doctor(*, repair: Repair = False, url: Url = None, as_json: Json = False) -> None:
    """Check the database, the embedders, the workers, the jobs' places and the clock, and say what to do."""
    try:
        findings = list(ask(url, lambda app: app.operator.doctor(repair=repair)))
    except (StoreError, NotFound) as trouble:  # a database that cannot even be opened is a finding too
        findings = [Finding(check="database", verdict=Verdict.PROBLEM, message=str(trouble))]
    checkup = Checkup.of(findings)
    if as_json:
        print_json(checkup)
    else:
        screen = console()
        screen.print(table(FINDINGS, [_row(finding) for finding in findings], width=screen.width))
    if not checkup.healthy:
        raise typer.Exit(1)


def _row(finding: Finding) -> tuple[Cell, ...]:
    return (Text(MARKS[finding.verdict], SHADES[finding.verdict.value]), finding.check, finding.message)
