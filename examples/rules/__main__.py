"""Prepares the tables and loads rules, or shows the dashboards: `python -m examples.rules [FILE | dashboards]`."""

import argparse
import asyncio
import os
import sys
from pathlib import Path

try:
    import embedq
    from embedq.errors import EmbedqError

    from . import dashboards, table
except ModuleNotFoundError as error:
    sys.exit(f"{error.name} is missing: run `make examples` once, then .venv/bin/python -m examples.rules")

TROUBLE = (EmbedqError, *table.TROUBLE)


async def load(url: str, path: Path) -> str:
    """Make what is not there yet, and load a file of rules."""
    rules = table.read(path)
    async with embedq.open(url):  # it makes its own tables; the views look at them
        await table.prepare(url)
    return f"{await table.load(url, rules)} rules of {path.name} were new or other than before"


def main() -> None:
    """Read the command line; what goes wrong is said in one line."""
    what = _arguments().what
    url = os.environ.get("DATABASE_URL") or os.environ.get("EMBEDQ_URL") or ""
    if not url.startswith(("postgresql://", "postgres://")):
        sys.exit("Set EMBEDQ_URL (or DATABASE_URL) to postgresql://user:password@host/database.")
    try:
        if what == "dashboards":
            dashboards.show(asyncio.run(table.look(url)))
        else:
            print(asyncio.run(load(url, Path(what))))  # noqa: T201 says what it did
    except TROUBLE as error:
        sys.exit(" ".join(str(error).split()))
    except OSError as error:
        sys.exit(f"The database cannot be reached ({error}): check that it runs, and the URL.")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.rules",
        description="Load rules into a table, or show how their embedding goes. The database: EMBEDQ_URL.",
    )
    said = "a file of JSON lines (default: the example's own), or the word `dashboards`"
    parser.add_argument("what", nargs="?", default=str(table.RULES), metavar="FILE | dashboards", help=said)
    return parser.parse_args()


if __name__ == "__main__":
    main()
