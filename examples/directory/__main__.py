"""Runs the directory: `python -m examples.directory`, with DATABASE_URL or EMBEDQ_URL set."""

import os
import signal
import socket
import sys

import uvicorn

from .application import Options, create
from .directory import RETRY

HOST = "127.0.0.1"  # it asks nobody who they are: a proxy that does may stand before it
PORT = 8500


def read_options() -> Options:
    """Read the environment, or say what is missing."""
    url = os.environ.get("DATABASE_URL") or os.environ.get("EMBEDQ_URL") or ""
    if not url.startswith(("postgresql://", "postgres://")):
        sys.exit("Set DATABASE_URL (or EMBEDQ_URL) to postgresql://user:password@host/database.")
    return Options(
        url=url,
        workers=int(os.environ.get("DIRECTORY_WORKERS", "2")),
        retry_base_seconds=float(os.environ.get("DIRECTORY_RETRY_BASE_SECONDS", RETRY["base_seconds"])),
    )


def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    application = create(read_options())
    listening = socket.create_server((HOST, int(os.environ.get("DIRECTORY_PORT", PORT))))
    print(f"The directory is on http://{HOST}:{listening.getsockname()[1]}/docs", flush=True)  # noqa: T201 a banner
    server = uvicorn.Server(uvicorn.Config(application, log_level="warning"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn leaves cleanly, and then raises it once more
    server.run(sockets=[listening])
    if not server.started:
        sys.exit(1)  # uvicorn has said why


if __name__ == "__main__":
    main()
