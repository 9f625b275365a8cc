"""Run a throwaway PostgreSQL server by hand: its URL is the only line of output."""

import argparse
import signal
import sys
import threading
from pathlib import Path

from embedq.testing.postgres import PostgresFailed, PostgresServer, PostgresUnavailable

_LOOK_SECONDS = 0.5


def main() -> None:
    """Run a server until it is interrupted; report in one line what keeps it from running."""
    try:
        _run(_parse())
    except (PostgresUnavailable, PostgresFailed, OSError) as error:
        sys.exit(str(error))


def _run(arguments: argparse.Namespace) -> None:
    over = threading.Event()
    for way in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(way, lambda *_: over.set())
    with PostgresServer(arguments.version, port=arguments.port, directory=arguments.keep) as server:
        sys.stdout.write(server.url() + "\n")
        sys.stdout.flush()
        while not over.wait(_LOOK_SECONDS) and server.pid is not None:
            pass
        sys.exit(None if over.is_set() else f"PostgreSQL ended by itself. Its last words:\n{server.last_words()}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m embedq.testing.postgres", description=__doc__)
    parser.add_argument("--version", type=int, choices=(18, 16), default=18)
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep data and log here, and go on with them next time"
    )
    return parser.parse_args()


if __name__ == "__main__":
    main()
