"""The command line: parse, one call, print the answer."""

from embedq.cli.entry import main

__all__ = ["main"]
