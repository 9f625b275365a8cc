"""Runs the directory: `python -m examples.directory`, with DATABASE_URL or EMBEDQ_URL set."""

import argparse
import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import TypeVar

try:
    import uvicorn
    from fastapi import FastAPI

    from .application import TROUBLE, Options, create
    from .directory import RETRY
except ModuleNotFoundError as error:
    sys.exit(f"{error.name} is missing: run `make examples` once, then .venv/bin/python -m examples.directory")

HOST = "127.0.0.1"  # it asks nobody who they are: a proxy that does may stand before it
PORT = 8500
Number = TypeVar("Number", int, float)


def main() -> None:
    """Serve until SIGTERM or Ctrl-C; what keeps it from that is said in one line."""
    argparse.ArgumentParser(
        prog="python -m examples.directory",
        description="Serve the business directory. Its settings are variables: see examples/directory/README.md.",
    ).parse_args()
    application, listening = create(read_options()), listen(read("DIRECTORY_PORT", int, PORT))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))  # uvicorn stops serving, and then raises it once more
    try:
        asyncio.run(serve(application, listening))
    except TROUBLE as error:
        sys.exit(" ".join(str(error).split()) or type(error).__name__)


async def serve(application: FastAPI, listening: socket.socket) -> None:
    """Open the database, and serve; uvicorn would tell of a database that is not there by a traceback."""
    async with application.router.lifespan_context(application):
        print(f"The directory is on http://{HOST}:{listening.getsockname()[1]}/docs", flush=True)  # noqa: T201 a banner
        await uvicorn.Server(uvicorn.Config(application, log_level="warning", lifespan="off")).serve([listening])


def read_options() -> Options:
    """Read the environment, or say what is missing."""
    url = os.environ.get("DATABASE_URL") or os.environ.get("EMBEDQ_URL") or ""
    if not url.startswith(("postgresql://", "postgres://")):
        sys.exit("Set DATABASE_URL (or EMBEDQ_URL) to postgresql://user:password@host/database.")
    base = read("DIRECTORY_RETRY_BASE_SECONDS", float, RETRY["base_seconds"])
    return Options(url=url, workers=read("DIRECTORY_WORKERS", int, 2), retry_base_seconds=base)


def read(name: str, kind: Callable[[str], Number], default: Number) -> Number:
    """Read a number from the environment."""
    value = os.environ.get(name)
    try:
        return default if value is None else kind(value)
    except ValueError:
        sys.exit(f"{name}={value!r}: write a number.")


def listen(port: int) -> socket.socket:
    """Take the port, so that a taken one is known before anything starts."""
    try:
        return socket.create_server((HOST, port))
    except OverflowError:
        sys.exit(f"DIRECTORY_PORT={port}: write a port from 0 to 65535.")
    except OSError as error:
        sys.exit(f"DIRECTORY_PORT={port}: {HOST}:{port} cannot be bound ({os.strerror(error.errno or 0)}).")


if __name__ == "__main__":
    main()
