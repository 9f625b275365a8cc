"""The command that looks at everything that commonly goes wrong."""

import typer
from rich.markup import escape

from embedq.cli.options import Json, Url, ask
from embedq.cli.output import SHADES, console, print_json, table
from embedq.errors import NotFound, StoreError
from embedq.operator import Finding, Verdict

MARKS = {Verdict.OK: "✓", Verdict.WARNING: "!", Verdict.PROBLEM: "✗"}


def doctor(*, url: Url = None, as_json: Json = False) -> None:
    """Check the database, the embedder, the workers and the clock, and say what to do."""
    try:
        findings = list(ask(url, lambda app: app.operator.doctor()))
    except (StoreError, NotFound) as trouble:  # a database that cannot even be opened is a finding too
        findings = [Finding(check="database", verdict=Verdict.PROBLEM, message=str(trouble))]
    ill = any(finding.verdict is Verdict.PROBLEM for finding in findings)
    if as_json:
        print_json({"healthy": not ill, "findings": [finding.facts() for finding in findings]})
    else:
        console().print(table(("", "check", "finding"), [_row(finding) for finding in findings]))
    if ill:
        raise typer.Exit(1)


def _row(finding: Finding) -> tuple[str, ...]:
    shade = SHADES[finding.verdict.value]
    return (f"[{shade}]{MARKS[finding.verdict]}[/{shade}]", finding.check, escape(finding.message))
