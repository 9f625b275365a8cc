"""Terminals that cannot show every character, and pipes that are closed early."""

import codecs
import io
import os
import sys

from embedq.policy.printable import SIGNS

ERRORS = "embedq"  # the name of our way with characters that a stream cannot encode
LINES = {"─": "-", "━": "-", "═": "-", "╴": "-", "╶": "-", "╸": "-", "╺": "-", "│": "|", "┃": "|", "║": "|"}
CARETS = {chr(sign): f"^{chr(code ^ 0x40)}" for code, sign in SIGNS.items() if sign != 0xFFFD}  # noqa: PLR2004 it is shown for many
OWN_SIGNS = {"●": "*", "✓": "+", "✗": "x", "…": "...", "±": "+/-"}
PLAIN = {chr(code): "+" for code in range(0x2500, 0x2580)} | LINES | CARETS | OWN_SIGNS


def accept_all() -> None:
    """Let stdout and stderr write every character: what their encoding lacks is replaced by letters that it has."""
    codecs.register_error(ERRORS, _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)


def drop_output() -> None:
    """Let nothing more be written to stdout, which nobody reads any more: Python writes the rest when it leaves."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    signs = error.object[error.start : error.end]
    return "".join(PLAIN.get(sign) or _escaped(sign) for sign in signs), error.end


def _escaped(sign: str) -> str:
    return sign.encode("ascii", "backslashreplace").decode()
