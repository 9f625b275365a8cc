"""Commands about collections: declare, list, drop."""

import sys
from typing import Annotated, Any

import typer

from embedq.app import App
from embedq.cli.attach import columns
from embedq.cli.options import Collection, Json, Url, ask
from embedq.cli.output import console, lane, print_json, say
from embedq.cli.tables import Column, table
from embedq.model import Page
from embedq.operator.report import counted
from embedq.policy.languages import PLAIN
from embedq.policy.printable import literal
from embedq.shapes.collections import Collections, Declared, Dropped, RetryPolicy

Text = Annotated[
    str | None,
    typer.Option("--text-from", help="Attributes that make the text: NAME[,NAME]. Empty: records bring their own."),
]
OfEmbedder = Annotated[str | None, typer.Option("--embedder", help="local, or PROVIDER:MODEL.")]
OfPriority = Annotated[str | None, typer.Option("--priority", help="urgent, high, normal or low.")]
OfLanguage = Annotated[
    str | None, typer.Option("--language", help="Of the texts' words, for keyword search: english, …, simple for none.")
]
MaxAttempts = Annotated[int | None, typer.Option("--max-attempts", help="Failures that make a job a dead letter.")]
RetryBase = Annotated[float | None, typer.Option("--retry-base-seconds", help="The wait after the first failure.")]
RetryFactor = Annotated[float | None, typer.Option("--retry-factor", help="By how much each further wait grows.")]
RetryCap = Annotated[float | None, typer.Option("--retry-cap-seconds", help="The longest wait.")]
RetryJitter = Annotated[float | None, typer.Option("--retry-jitter", help="Chance in each wait: 0.2 is ±20 %.")]
COLLECTIONS = (
    Column(name="collection", key=True),
    Column(name="space", least=10),
    Column(name="text from", least=10, worth=3),
    Column(name="priority", worth=2),
    Column(name="attempts", right=True, worth=1),
)


def declare(  # noqa: PLR0913 one parameter per option
    collection: Collection,
    *,
    text_from: Text = None,
    embedder: OfEmbedder = None,
    priority: OfPriority = None,
    language: OfLanguage = None,
    max_attempts: MaxAttempts = None,
    retry_base_seconds: RetryBase = None,
    retry_factor: RetryFactor = None,
    retry_cap_seconds: RetryCap = None,
    retry_jitter: RetryJitter = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Declare a collection, or change how it is declared; what is left out stays as it is.

    Another --text-from embeds again the records whose text changes. Another --embedder over records is refused.
    """
    retry = {
        "max_attempts": max_attempts,
        "base_seconds": retry_base_seconds,
        "factor": retry_factor,
        "cap_seconds": retry_cap_seconds,
        "jitter": retry_jitter,
    }
    given = {"text_from": text_from, "embedder": embedder, "priority": priority, "language": language}
    done = ask(url, lambda app: _declare(app, collection, _given(given), _given(retry)), make=True)
    print_json(done) if as_json else _say_declared(done)


def collections(*, url: Url = None, as_json: Json = False) -> None:
    """List the collections."""
    found = ask(url, lambda app: app.client.collections())
    if as_json:
        print_json(Collections.of(Page(found)))  # it is all of them
    elif not found:
        say("no collections yet: `embedq put COLLECTION FILE` makes the first", shade="dim")
    else:
        rows = [
            (
                one.declaration.name,
                str(one.space),
                ", ".join(one.declaration.text_from or ("text",)),
                lane(one.declaration.priority),
                str(one.declaration.retry.max_attempts),
            )
            for one in found
        ]
        screen = console()
        screen.print(table(COLLECTIONS, rows, width=screen.width))


def drop(
    collection: Collection,
    *,
    confirm: Annotated[
        str | None, typer.Option("--confirm", help="The collection's name once more. Asked for on a terminal.")
    ] = None,
    url: Url = None,
    as_json: Json = False,
) -> None:
    """Remove a collection with its records, vectors and jobs, for good."""
    if confirm is None and not sys.stdin.isatty():
        raise typer.BadParameter(f"repeat the collection's name: --confirm {collection}", param_hint="--confirm")
    ask(url, lambda app: _drop(app, collection, confirm))
    print_json(Dropped(name=collection)) if as_json else say(f"{collection} is gone, with its records and vectors")


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


async def _declare(app: App, name: str, given: dict[str, Any], retry: dict[str, Any]) -> Declared:
    """Declare what is given over what is declared already."""
    before = {one.declaration.name: one for one in await app.client.collections()}.get(name)
    asked: dict[str, Any] = {"retry": retry}
    if before is not None:
        old = before.declaration
        kept = RetryPolicy.of(old.retry).model_dump()
        asked = {
            "text_from": old.text_from,
            "priority": old.priority,
            "language": old.language,
            "retry": kept | retry,
        }
    if "text_from" in given:
        given = given | {"text_from": columns(given["text_from"]) or None}
    return Declared.after(before, await app.client.declare(name, **asked | given))


async def _drop(app: App, name: str, confirm: str | None) -> None:
    await app.client.collection(name)
    if confirm is None:
        records = (await app.store.counts())[name].records
        say(f"{counted(records, 'record')} of {name} will be gone for good, with vectors and jobs", shade="yellow")
        confirm = typer.prompt("The collection's name once more", default="", show_default=False)
    await app.client.drop(name, confirm=confirm)


def _say_declared(done: Declared) -> None:
    parts = [
        f"text from {', '.join(done.text_from)}" if done.text_from else "own texts",
        done.space,
        f"{done.priority} priority",
        "words as they are" if done.language == PLAIN else f"{done.language} words",
        counted(done.retry.max_attempts, "attempt"),
    ]
    what = {
        "created": "is declared",
        "changed": f"has another {' and '.join(name.replace('_', ' ') for name in done.changed)}",
        "unchanged": "is declared so already",
    }
    say(f"{literal(done.name)} {what[done.status]}: {', '.join(parts)}")
    if "text_from" in done.changed:
        say("records whose text changed are embedded again", shade="yellow")
    if "language" in done.changed:
        say("their words are indexed again in the background", shade="yellow")
